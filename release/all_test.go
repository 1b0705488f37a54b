//go:build release

package release

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// options are those of the script build.
var options []string

// Each archive holds a command for its platform.
func TestPlatforms(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(dist, "fleetpace_*_*_*.*"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, path := range archives {
		name := filepath.Base(path)
		switch {
		case strings.HasSuffix(name, ".zip"):
			archive, err := zip.OpenReader(path)
			require.NoError(t, err)
			file, err := archive.Open(strings.TrimSuffix(name, ".zip") + "/fleetpace.exe")
			require.NoError(t, err)
			text, err := io.ReadAll(file)
			require.NoError(t, err)
			p, err := pe.NewFile(bytes.NewReader(text))
			require.NoError(t, err)
			seen["windows "+map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64"}[p.Machine]] = true
			_ = archive.Close()
		case strings.Contains(name, "darwin") && strings.HasSuffix(name, ".tar.gz"):
			m, err := macho.Open(filepath.Join(unpack(t, name), strings.TrimSuffix(name, ".tar.gz"), "fleetpace"))
			require.NoError(t, err)
			seen["darwin "+map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[m.Cpu]] = true
			_ = m.Close()
		case strings.HasSuffix(name, ".tar.gz"):
			binary := filepath.Join(unpack(t, name), strings.TrimSuffix(name, ".tar.gz"), "fleetpace")
			requireStatic(t, binary)
			e, err := elf.Open(binary)
			require.NoError(t, err)
			seen["linux "+map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[e.Machine]] = true
			_ = e.Close()
		}
	}
	for _, platform := range []string{"linux amd64", "linux arm64", "darwin amd64", "darwin arm64", "windows amd64", "windows arm64"} {
		require.True(t, seen[platform], platform)
	}
}

// Each list of components names the modules of the command, all with a license.
func TestComponents(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(dist, "*.cdx.json"))
	require.NoError(t, err)
	require.Len(t, lists, 6)
	modules := strings.Count(run(t, ".", "go", "version", "-m", binary(t)), "\n\tdep\t")
	for _, path := range lists {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var list struct {
			BOMFormat  string
			Metadata   struct{ Component struct{ Version string } }
			Components []struct {
				Name     string
				Licenses []any
			}
		}
		require.NoError(t, json.Unmarshal(text, &list))
		require.Equal(t, "CycloneDX", list.BOMFormat)
		require.Equal(t, "v"+version, list.Metadata.Component.Version)
		for _, c := range list.Components {
			require.NotEmpty(t, c.Licenses, c.Name)
		}
		if strings.Contains(path, strings.TrimSuffix(host(t), ".tar.gz")) {
			require.Len(t, list.Components, modules+1, "the modules, and the standard library")
		}
	}
}

// The npm package, in a clean folder and without any registry: a worker takes its turns.
func TestNPM(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, "npm", "init", "--yes")
	run(t, dir, "npm", "install", "--offline", "--no-audit", "--no-fund", filepath.Join(dist, "fleetpace-npm-"+version+".tgz"))
	s := serving(t, binary(t), nil)
	s.ready(t)
	const worker = `import { Fleetpace } from "fleetpace";
import { pacedFetch } from "fleetpace/fetch";
const limiter = new Fleetpace({ url: process.argv[2] }).limiter("api");
for (let i = 0; i < 7; i++) await limiter.turn(async (turn) => console.log("its turn", turn.waitedMs >= 0));
console.log(typeof pacedFetch(limiter), (await import("fleetpace/unix")).unixFetch.name);
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker.mjs"), []byte(worker), 0o600))
	out := run(t, dir, "node", "worker.mjs", s.url)
	require.Equal(t, 7, strings.Count(out, "its turn true"), out)
	require.Contains(t, out, "function unixFetch")
	require.FileExists(t, filepath.Join(dir, "node_modules/fleetpace/dist/index.d.ts"))
	require.NoDirExists(t, filepath.Join(dir, "node_modules/fleetpace/src"))
}

// The Debian packages: the command runs, its file of limits is right, and systemd takes the units.
func TestDebian(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		deb := filepath.Join(dist, "fleetpace_"+version+"_"+arch+".deb")
		require.Equal(t, arch+"\n", run(t, ".", "dpkg-deb", "--field", deb, "Architecture"))
		require.Equal(t, strings.ReplaceAll(version, "-", "~")+"\n", run(t, ".", "dpkg-deb", "--field", deb, "Version"))
		require.Regexp(t, `-rw------- root/root .* ./etc/fleetpace/environment\n`, run(t, ".", "dpkg-deb", "--contents", deb))
	}
	arch := strings.TrimSpace(run(t, ".", "go", "env", "GOHOSTARCH"))
	root := t.TempDir()
	run(t, ".", "dpkg-deb", "--extract", filepath.Join(dist, "fleetpace_"+version+"_"+arch+".deb"), root)
	command := filepath.Join(root, "usr/bin/fleetpace")
	require.Contains(t, run(t, ".", command, "version"), version)
	require.Contains(t, run(t, ".", command, "check", filepath.Join(root, "etc/fleetpace/limits.yaml")), "no errors")
	serving(t, command, nil).takesTurn(t)
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not installed: the units are not verified")
		return
	}
	units, err := filepath.Glob(filepath.Join(root, "usr/lib/systemd/system/*.service"))
	require.NoError(t, err)
	require.Len(t, units, 2)
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		here := filepath.Join(t.TempDir(), filepath.Base(unit)) // the command is not in /usr/bin
		require.NoError(t, os.WriteFile(here, bytes.ReplaceAll(text, []byte("/usr/bin/fleetpace"), []byte(command)), 0o600))
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", here).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Empty(t, string(out))
	}
}

// object is one of a Kubernetes file.
type object struct {
	kind, name string
	text       []byte
}

// objects reads a file as strictly as the API server with --validate=strict: it has no field that the
// types of Kubernetes do not have.
func objects(t *testing.T, file string) (all []object) {
	for _, text := range strings.Split(file, "\n---\n") {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name, Namespace string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &head))
		into := map[string]any{
			"apps/v1 Deployment": &apps.Deployment{}, "v1 Service": &core.Service{}, "v1 ConfigMap": &core.ConfigMap{},
			"policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{},
		}[head.APIVersion+" "+head.Kind]
		require.NotNil(t, into, "%s %s", head.APIVersion, head.Kind)
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), into), "%s %s", head.Kind, head.Metadata.Name)
		require.Equal(t, "fleetpace", head.Metadata.Namespace)
		all = append(all, object{head.Kind, head.Metadata.Name, []byte(text)})
	}
	return all
}

// render renders the packed chart.
func render(t *testing.T, options ...string) (string, error) {
	helm := strings.TrimSpace(run(t, "..", ".ci/tool", "helm"))
	args := append([]string{"template", "fleetpace", filepath.Join(dist, "fleetpace-chart-"+version+".tgz"), "--namespace", "fleetpace", "--kube-version", "1.30.0"}, options...)
	out, err := exec.CommandContext(t.Context(), helm, args...).CombinedOutput()
	return string(out), err
}

// The plain file is that of the packed chart. Services find their pods, probes and services name
// ports that the containers have, and every mount has its volume.
func TestKubernetes(t *testing.T) {
	plain, err := os.ReadFile(filepath.Join(dist, "fleetpace-kubernetes-"+version+".yaml"))
	require.NoError(t, err)
	rendered, err := render(t)
	require.NoError(t, err, rendered)
	require.Equal(t, len(objects(t, rendered)), len(objects(t, string(plain))))
	require.NotContains(t, string(plain), "Helm")
	full, err := render(t, "--set", "monitor.enabled=true,image.digest=sha256:"+strings.Repeat("a", 64)+",nodeSelector.disk=fast,podAnnotations.a=b,imagePullSecrets[0].name=pull,tolerations[0].operator=Exists")
	require.NoError(t, err, full)
	for _, file := range []string{string(plain), full} {
		deployments, services := map[string]apps.Deployment{}, map[string]core.Service{}
		for _, o := range objects(t, file) {
			switch o.kind {
			case "Deployment":
				var d apps.Deployment
				require.NoError(t, yaml.Unmarshal(o.text, &d))
				deployments[o.name] = d
			case "Service":
				var s core.Service
				require.NoError(t, yaml.Unmarshal(o.text, &s))
				services[o.name] = s
			}
		}
		require.Len(t, services, len(deployments))
		for name, d := range deployments {
			pod := d.Spec.Template.Spec
			require.Equal(t, d.Spec.Selector.MatchLabels, services[name].Spec.Selector)
			require.Subset(t, d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
			require.False(t, *pod.AutomountServiceAccountToken)
			require.True(t, *pod.SecurityContext.RunAsNonRoot)
			require.Len(t, pod.Containers, 1)
			c := pod.Containers[0]
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
			require.Contains(t, c.Image, "fleetpace")
			require.Equal(t, c.Ports[0].Name, services[name].Spec.Ports[0].TargetPort.StrVal)
			for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
				if probe != nil && probe.HTTPGet != nil {
					require.Equal(t, c.Ports[1].Name, probe.HTTPGet.Port.StrVal)
				}
			}
			volumes := map[string]bool{}
			for _, v := range pod.Volumes {
				volumes[v.Name] = true
			}
			for _, m := range c.VolumeMounts {
				require.True(t, volumes[m.Name], m.Name)
			}
		}
	}
}

// Values that cannot work are refused with their names.
func TestChartRefuses(t *testing.T) {
	for set, says := range map[string]string{
		"serve.replicas=0": "replicas", "serve.tls.secretName=": "secretName", "limits=null": "limits",
		"image.digest=latest": "digest", "serve.tokens=secret": "tokens", "serve.tlsSecret=x": "tlsSecret", "serve.sessionAffinity=Cookie": "sessionAffinity",
	} {
		out, err := render(t, "--set", set)
		require.Error(t, err, set)
		require.Contains(t, out, says)
	}
}

// The arguments, variables and probes of the chart's servers work with the released command: the probe
// needs neither TLS nor a token, and a call takes its turn with a token of the file.
func TestChartServes(t *testing.T) {
	for _, scheme := range []string{"https", "http"} {
		t.Run(scheme, func(t *testing.T) { testChartServes(t, scheme) })
	}
}

func testChartServes(t *testing.T, scheme string) {
	file, err := render(t, "--set", "limits[0].name=api,limits[0].limit=100/s burst 5,serve.tls.enabled="+strconv.FormatBool(scheme == "https"))
	require.NoError(t, err, file)
	var d apps.Deployment
	var config core.ConfigMap
	for _, o := range objects(t, file) {
		switch o.kind + " " + o.name {
		case "Deployment fleetpace-serve":
			require.NoError(t, yaml.Unmarshal(o.text, &d))
		case "ConfigMap fleetpace-serve":
			require.NoError(t, yaml.Unmarshal(o.text, &config))
		}
	}
	dir := t.TempDir()
	authority := certificate(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "limits.yaml"), []byte(config.Data["limits.yaml"]), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokens"), []byte("turns secret\n"), 0o600))
	c := d.Spec.Template.Spec.Containers[0]
	require.Equal(t, scheme, c.Ports[0].Name)
	var args, environment []string
	probes := freeAddress(t)
	for _, arg := range c.Args {
		for _, m := range c.VolumeMounts {
			arg = strings.Replace(arg, m.MountPath, dir, 1)
		}
		args = append(args, strings.NewReplacer("--listen=:9467", "--listen=ADDRESS", "--probes=:9468", "--probes="+probes).Replace(arg))
	}
	for _, v := range c.Env {
		if v.Name != "FLEETPACE_REDIS_URL" { // serving has it
			environment = append(environment, v.Name+"="+v.Value)
		}
	}
	s := serving(t, binary(t), environment, args...)
	s.token = "secret"
	s.url = strings.Replace(s.url, "http:", scheme+":", 1)
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority}}}
	s.takesTurn(t)
	probe, err := http.Get("http://" + probes + c.ReadinessProbe.HTTPGet.Path)
	require.NoError(t, err)
	require.NoError(t, probe.Body.Close())
	require.Equal(t, http.StatusOK, probe.StatusCode)
}

// certificate writes tls.crt and tls.key for 127.0.0.1, and returns the authority.
func certificate(t *testing.T, dir string) *x509.CertPool {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fleetpace"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(certificate))
	return pool
}
