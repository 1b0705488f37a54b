package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// scene is a crawl of three workers, the exporter, and a Prometheus that scrapes them and this
// process.
type scene struct {
	*testing.T
	redis      *redistest.PrivateServer
	dir        string
	requests   atomic.Int64 // that the crawled site has had
	prometheus string       // its URL
}

const patience = 2 * time.Minute // for what a busy machine does late

func newScene(t *testing.T, own string) *scene {
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			redistest.Missing(t, program+" is not installed: apt-get install prometheus")
		}
	}
	s := &scene{T: t, dir: t.TempDir(), redis: redistest.Private(t, redistest.PrivateOptions{})}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", s.dir+"/", "../cmd/fleetpace", "../examples/crawler")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	site := httptest.NewServer(http.HandlerFunc(s.page))
	t.Cleanup(site.Close)
	workers := s.crawl(site.URL)
	exporter := s.until(1, regexp.MustCompile(`http://(\S+)/metrics`), "fleetpace", "export", "--redis", s.redis.URL(), "--listen", "127.0.0.1:0")
	s.scrape(append(workers, own), exporter)
	return s
}

// page is one of a site without an end: each links to two others.
func (s *scene) page(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprintf(w, `<title>%d</title><a href="/%d">left</a> <a href="/%d">right</a>`, n, 2*n+1, 2*n+2)
}

// crawl starts the crawler, and returns where its workers' metrics are.
func (s *scene) crawl(site string) (workers []string) {
	return s.until(3, regexp.MustCompile(`http://(\S+)/metrics`), "crawler", "-redis", s.redis.URL(), "-url", site, "-max-pages", "0",
		"-qps", "40", "-out", filepath.Join(s.dir, "pages.jsonl"), "-metrics", "127.0.0.1:0")
}

// until starts a program, which ends with the test, and returns what n lines of its output say.
func (s *scene) until(n int, says *regexp.Regexp, program string, args ...string) (texts []string) {
	s.Helper()
	path := filepath.Join(s.dir, program)
	if _, err := os.Stat(path); err != nil {
		path = program
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	cmd := exec.Command(path, args...) //nolint:noctx // it is interrupted, and not killed
	r, w, err := os.Pipe()
	require.NoError(s, err)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(s, cmd.Start())
	_ = w.Close()
	s.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	})
	found := make(chan string, n)
	go func() {
		defer close(found)
		said := 0
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if said == n {
				continue
			}
			s.Log(program, lines.Text())
			if m := says.FindStringSubmatch(lines.Text()); m != nil {
				said++
				found <- m[1]
			}
		}
	}()
	for len(texts) < n {
		select {
		case text, ok := <-found:
			require.True(s, ok, "%s has ended", program)
			texts = append(texts, text)
		case <-ctx.Done():
			s.Fatalf("%s does not say %v", program, says)
		}
	}
	return texts
}

// scrape starts Prometheus, with the rules of alerts.yaml in a shorter time.
func (s *scene) scrape(workers, exporter []string) {
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(s, err)
	require.NoError(s, os.WriteFile(filepath.Join(s.dir, "alerts.yaml"), []byte(shorter(string(rules))), 0o600))
	config, err := json.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "500ms", "evaluation_interval": "500ms"},
		"rule_files": []string{"alerts.yaml"},
		"scrape_configs": []any{
			map[string]any{"job_name": "workers", "static_configs": []any{map[string]any{"targets": workers}}},
			map[string]any{"job_name": "fleet", "static_configs": []any{map[string]any{"targets": exporter}}},
		},
	})
	require.NoError(s, err)
	file := filepath.Join(s.dir, "prometheus.yml")
	require.NoError(s, os.WriteFile(file, config, 0o600))
	at := s.until(1, regexp.MustCompile(`msg="Listening on".* address=(\S+)`), "prometheus", "--config.file", file,
		"--storage.tsdb.path", filepath.Join(s.dir, "tsdb"), "--web.listen-address", "127.0.0.1:0")
	s.prometheus = "http://" + at[0]
	s.eventually("Prometheus is ready", func() bool {
		answer, err := http.Get(s.prometheus + "/-/ready")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
}

// shorter are rules that need seconds where those of operators need minutes.
func shorter(rules string) string {
	return strings.NewReplacer("[5m]", "[6s]", "for: 1m", "for: 1s", "for: 5m", "for: 2s", "for: 10m", "for: 3s",
		"> 600", "> 5", "> 300", "> 5", "1 / 300", "1 / 6").Replace(rules)
}

// sample is a value of a query.
type sample struct {
	labels map[string]string
	value  float64
}

// query asks Prometheus.
func (s *scene) query(expr string) (samples []sample) {
	s.Helper()
	get, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.prometheus+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	require.NoError(s, err)
	answer, err := http.DefaultClient.Do(get)
	require.NoError(s, err)
	defer answer.Body.Close()
	var body struct {
		Error string `json:"error"`
		Data  struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Value  [2]any            `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	require.NoError(s, json.NewDecoder(answer.Body).Decode(&body))
	require.Empty(s, body.Error, "%s", expr)
	for _, r := range body.Data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		require.NoError(s, err)
		samples = append(samples, sample{r.Metric, value})
	}
	return samples
}

// sum is the sum of what a query finds.
func (s *scene) sum(expr string) (sum float64) {
	for _, p := range s.query("sum(" + expr + ")") {
		sum += p.value
	}
	return sum
}

// eventually waits for what Prometheus will see.
func (s *scene) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(end) {
			for _, q := range []string{"ALERTS", `{__name__=~"fleetpace_(fleet|active|queued|permits).*"}`} {
				for _, p := range s.query(q) {
					s.Log(p.labels, p.value)
				}
			}
			s.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// fires reports whether an alert fires.
func (s *scene) fires(alert string) bool {
	return len(s.query(fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing"}`, alert))) > 0
}

// run runs a command of fleetpace.
func (s *scene) run(args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(s.dir, "fleetpace"), append(args, "--redis", s.redis.URL(), "-y")...)
	out, err := cmd.CombinedOutput()
	require.NoError(s, err, string(out))
}
