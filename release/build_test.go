package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/embedded"
)

// version and dist are those of the release that TestMain has built. FLEETPACE_DIST names one that is
// there already.
var version, dist string

func TestMain(m *testing.M) {
	status, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func buildAndRun(m *testing.M) (int, error) {
	source, err := os.ReadFile("../cmd/fleetpace/version.go")
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^const source = "(.*)"`).FindSubmatch(source)
	if found == nil {
		return 0, fmt.Errorf("version.go: names no version")
	}
	version = string(found[1])
	if dist = os.Getenv("FLEETPACE_DIST"); dist != "" {
		dist, err = filepath.Abs(dist)
		if err != nil {
			return 0, err
		}
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	dist = filepath.Join(dir, "dist")
	if err := build(context.Background(), "..", dist); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// build builds a release from a clone of the repository.
func build(ctx context.Context, clone, folder string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(clone, "release/build"), append(options, version, folder)...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// run runs a command in a directory, and returns what it writes.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s\n%s%s", name, strings.Join(args, " "), out, errs.String())
	return string(out)
}

// Another clone elsewhere, on another day and with other settings of Go: the files are the same.
func TestTwoBuildsAreEqual(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "another", "place")
	run(t, ".", "git", "clone", "--quiet", "--shared", "..", clone)
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOFLAGS", "-race")
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("LANG", "de_DE.UTF-8")
	again := filepath.Join(t.TempDir(), "dist")
	require.NoError(t, build(t.Context(), clone, again))
	want, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	require.NoError(t, err)
	have, err := os.ReadFile(filepath.Join(again, "SHA256SUMS"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(have))
	run(t, again, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	t.Logf("RELEASE\n%s", have)
}

// A version that the source does not have, or that is not written as versions are, builds nothing.
func TestWrongVersions(t *testing.T) {
	for asked, says := range map[string]string{"": "must be like", "v" + version: "without a v", "99.0.0": "run: release/set 99.0.0"} {
		folder := filepath.Join(t.TempDir(), "dist")
		out, err := exec.CommandContext(t.Context(), "./build", asked, folder).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), says)
		require.NoDirExists(t, folder)
	}
}

// set changes all places that check looks at, and all of them are found.
func TestSetVersion(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, ".", "git", "clone", "--quiet", "--shared", "..", clone)
	for asked, python := range map[string]string{"7.8.9-rc.1": "7.8.9rc1", "7.8.9-dev": "7.8.9.dev0", "7.8.9": "7.8.9"} {
		run(t, clone, "release/set", asked)
		run(t, clone, "release/set", "--check", asked)
		require.Len(t, strings.Fields(run(t, clone, "git", "diff", "--name-only")), 5)
		text, err := os.ReadFile(filepath.Join(clone, "clients/python/pyproject.toml"))
		require.NoError(t, err)
		require.Contains(t, string(text), `version = "`+python+`"`)
	}
	for _, file := range strings.Fields(run(t, clone, "git", "diff", "--name-only")) {
		run(t, clone, "git", "checkout", "--quiet", file)
		out, err := exec.CommandContext(t.Context(), filepath.Join(clone, "release/set"), "--check", "7.8.9").CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), file+": the version is "+version[:3])
		run(t, clone, "release/set", "7.8.9")
	}
}

// unpack unpacks a .tar.gz file.
func unpack(t *testing.T, name string) (dir string) {
	dir = t.TempDir()
	file, err := os.Open(filepath.Join(dist, name))
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	zipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	for archive := tar.NewReader(zipped); ; {
		head, err := archive.Next()
		if err == io.EOF {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.Clean("/"+head.Name))
		if head.FileInfo().IsDir() {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, text, head.FileInfo().Mode()))
	}
}

// binary returns the path of the released command for this machine.
func binary(t *testing.T) string {
	name := strings.TrimSuffix(host(t), ".tar.gz")
	return filepath.Join(unpack(t, name+".tar.gz"), name, "fleetpace")
}

// host is the name of the archive for this machine.
func host(t *testing.T) string {
	return fmt.Sprintf("fleetpace_%s_%s_%s.tar.gz", version,
		strings.TrimSpace(run(t, ".", "go", "env", "GOHOSTOS")), strings.TrimSpace(run(t, ".", "go", "env", "GOHOSTARCH")))
}

// The command is static, knows its version and its commit, and has the licenses beside it.
func TestBinary(t *testing.T) {
	path := binary(t)
	commit := strings.TrimSpace(run(t, ".", "git", "rev-parse", "HEAD"))
	require.Contains(t, run(t, ".", path, "version"), fmt.Sprintf("fleetpace %s (commit %s, go", version, commit))
	requireStatic(t, path)
	licenses, err := os.ReadFile(filepath.Join(filepath.Dir(path), "third-party-licenses.txt"))
	require.NoError(t, err)
	for _, module := range regexp.MustCompile(`dep\t(\S+)\t(\S+)`).FindAllStringSubmatch(run(t, ".", "go", "version", "-m", path), -1) {
		text := string(licenses)
		start := strings.Index(text, module[1]+" "+module[2]+"\n")
		require.GreaterOrEqual(t, start, 0, module[1])
		text = text[start:]
		require.Regexp(t, `(?i)copyright|apache license`, text[:strings.Index(text, "\n-----")], module[1])
	}
	serving(t, path, nil).takesTurn(t)
}

func requireStatic(t *testing.T, path string) {
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	for _, p := range file.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "the binary asks for a loader")
	}
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)
}

// The changelog's part is that of this version.
func TestChanges(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(dist, "CHANGES.md"))
	require.NoError(t, err)
	require.NotEmpty(t, text)
	require.NotContains(t, string(text), "\n## ")
	all, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	require.Contains(t, string(all), string(text))
}

// scene is a server that grants turns, on a Redis of its own.
type scene struct {
	url, token string
	client     *http.Client
}

// serving starts the command as a server.
func serving(t *testing.T, path string, environment []string, options ...string) *scene {
	redis, err := embedded.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(limits, []byte("limits:\n  - {name: api, limit: 100/s burst 5}\n"), 0o600))
	address := freeAddress(t)
	if options == nil {
		options = []string{"serve", "--limits", limits, "--listen", address}
	} else {
		for i := range options {
			options[i] = strings.ReplaceAll(options[i], "ADDRESS", address)
		}
	}
	cmd := exec.CommandContext(t.Context(), path, options...)
	cmd.Env = append(append(os.Environ(), "FLEETPACE_REDIS_URL="+redis.URL()), environment...)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &scene{url: "http://" + address, client: http.DefaultClient}
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// ready waits until the server is ready.
func (s *scene) ready(t *testing.T) {
	require.Eventually(t, func() bool {
		answer, err := s.client.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond)
}

// takesTurn takes a turn at the first limit.
func (s *scene) takesTurn(t *testing.T) {
	s.ready(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/wait", strings.NewReader(`{"limits": [{"name": "api"}]}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := s.client.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(text))
}

// The wheel, in a clean environment and without any registry: a worker takes its turns.
func TestWheel(t *testing.T) {
	wheels, err := filepath.Glob(filepath.Join(dist, "fleetpace-*-py3-none-any.whl"))
	require.NoError(t, err)
	require.Len(t, wheels, 1)
	python := python(t)
	environment := filepath.Join(t.TempDir(), "venv")
	run(t, ".", python, "-m", "venv", "--without-pip", environment)
	mine := filepath.Join(environment, "bin", "python")
	run(t, ".", python, "-m", "pip", "--python", mine, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheels[0])
	example, err := os.ReadFile("../clients/python/example.py")
	require.NoError(t, err)
	dir := t.TempDir() // away from the sources
	require.NoError(t, os.WriteFile(filepath.Join(dir, "example.py"), example, 0o600))
	s := serving(t, binary(t), nil)
	s.ready(t)
	out := run(t, dir, mine, "example.py", "-server", s.url, "-limit", "api", "-calls", "7")
	require.Equal(t, 7, strings.Count(out, "its turn"), out)
	require.Contains(t, run(t, dir, mine, "-c", "import fleetpace, importlib.metadata as m; print(fleetpace.__file__, m.version('fleetpace'))"), environment)
	require.FileExists(t, strings.TrimSpace(run(t, dir, mine, "-c", "import fleetpace, pathlib; print(pathlib.Path(fleetpace.__file__).with_name('py.typed'))")))
}

// python is one that can build and install wheels.
func python(t *testing.T) string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import setuptools, wheel, pip, venv, ensurepip").Run() == nil {
			return name
		}
	}
	require.FailNow(t, "apt-get install python3-pip python3-venv python3-wheel")
	return ""
}

// The image, on a base of its own: it holds the command, and runs it as a user without rights.
func TestImage(t *testing.T) {
	if exec.CommandContext(t.Context(), "docker", "info").Run() != nil {
		const missing = "docker: no Docker engine answers docker info; start dockerd"
		require.NotContains(t, os.Getenv("FLEETPACE_REQUIRE"), "docker", missing)
		t.Skip(missing)
	}
	const tag = "fleetpace:release-test"
	run(t, ".", "./image", "--base", "scratch", dist, tag)
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "--force", tag).Run() })
	require.Contains(t, run(t, ".", "docker", "run", "--rm", "--network", "none", "--read-only", tag, "version"), "fleetpace "+version)
	about := run(t, ".", "docker", "inspect", "--format", "{{.Config.User}} {{.Config.Entrypoint}}", tag)
	require.Equal(t, "65532:65532 [/usr/bin/fleetpace]\n", about)
}
