package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/internal/example"
)

// program is the crawler as a real process with -json.
type program struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// programEnv also takes out the second for which the race detector lingers at
// the end of each process.
func programEnv() []string {
	return append(os.Environ(), asProgram+"=1")
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(os.Args[0], append(args, "-json")...)}
	p.cmd.Env = programEnv()
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // no effect on one that has ended
	return p
}

// end waits for the process and returns what it printed last.
func (p *program) end(t *testing.T, wantCode int) result {
	t.Helper()
	timer := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait()
	require.Equal(t, wantCode, p.cmd.ProcessState.ExitCode(), "%s", &p.stderr)
	require.NotContains(t, p.stderr.String(), "DATA RACE") // of a worker, too
	lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
	require.Len(t, lines, 1, "more than the result on stdout")
	var r result
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &r))
	return r
}

func waitForPages(t *testing.T, path string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(path)
		return bytes.Count(raw, []byte("\n")) >= n
	}, time.Minute, 5*time.Millisecond, "the crawl found no pages")
}

// assertWhole checks that the file holds every page of the demo site once.
func assertWhole(t *testing.T, path string, inv demoInventory) {
	t.Helper()
	seen := make(map[string]bool)
	hosts := make(map[string]bool)
	workers := make(map[string]bool)
	for _, p := range readPages(t, path) {
		assert.False(t, seen[p.URL], "%s is there twice", p.URL)
		seen[p.URL] = true
		u := mustURL(t, p.URL)
		hosts[u.Host] = true
		workers[p.Worker] = true
		assert.False(t, strings.HasPrefix(u.Path, "/private/"), p.URL)
		assert.Equal(t, 200, p.Status)
		assert.NotEmpty(t, p.Title)
		assert.NotEmpty(t, p.Links)
		assert.Positive(t, p.Bytes)
	}
	assert.Len(t, seen, len(inv.pages))
	assert.Len(t, hosts, example.PageHosts)
	t.Logf("the pages are of %d workers", len(workers)) // one that starts late may find nothing left
}

// assertOnce checks that every URL that a crawl may visit was asked for once, and again
// only where the provider refused it: the machine may make a call come too early.
func assertOnce(t *testing.T, inv demoInventory, runs ...result) {
	t.Helper()
	accepted, violations := 0, 0
	for _, r := range runs {
		t.Logf("refused %d, utilization %g; %s", r.Refused, r.Utilization, r.Text())
		accepted += r.Requests - r.Refused
		if assert.NotNil(t, r.RobotsViolations) {
			violations += *r.RobotsViolations
		}
	}
	assert.Equal(t, inv.requests(), accepted, "some URL was fetched twice or not at all")
	assert.Zero(t, violations)
}

// The default program with a smaller site and a higher rate: all of it is
// fetched, nothing is fetched twice (the provider counts every request), and
// what robots.txt forbids is left alone.
func TestFleetCrawlsTheDemo(t *testing.T) {
	t.Parallel() // mostly waiting
	const n = 60
	inv := takeInventory(t, n)
	out := filepath.Join(t.TempDir(), "pages.jsonl")
	r := start(t, "-demo-pages", "60", "-qps", "100", "-out", out, "-monitor", "127.0.0.1:0").end(t, 0)

	assert.Equal(t, n, r.Pages)
	assertOnce(t, inv, r)
	assert.Positive(t, r.Processes)
	assert.True(t, r.Complete)
	assert.FileExists(t, r.Chart)
	assertWhole(t, out, inv)
}

// Ctrl-C in the middle, then the same command again.
func TestStoppedCrawlContinues(t *testing.T) {
	t.Parallel() // mostly waiting
	const n = 36
	inv := takeInventory(t, n)
	server, err := embedded.Start("")
	require.NoError(t, err)
	defer server.Close()
	out := filepath.Join(t.TempDir(), "pages.jsonl")
	args := []string{"-demo-pages", "36", "-redis", server.URL(), "-run", "x", "-out", out}

	// So slow that it is not complete by itself before it is stopped.
	p := start(t, append(args, "-qps", "10")...)
	waitForPages(t, out, 5)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	began := time.Now()
	first := p.end(t, 130)
	assert.Less(t, time.Since(began), workerStopLimit, "the waits did not end")
	assert.False(t, first.Complete)
	assert.Less(t, first.Pages, n)

	backlog := backlogAt(t, server)
	assert.Zero(t, backlog.active, "tasks were not put back")
	assert.Positive(t, backlog.waiting)

	args = append(args, "-qps", "100")
	second := start(t, args...).end(t, 0)
	assert.True(t, second.Complete)
	assert.Equal(t, n, first.Pages+second.Pages)
	assertOnce(t, inv, first, second)
	assertWhole(t, out, inv)

	third := start(t, args...).end(t, 0)
	assert.Zero(t, third.Requests, "a complete run began again")
}

// kill -9 of the parent: the workers notice, put their tasks back and end.
func TestWorkersDoNotOutliveTheirParent(t *testing.T) {
	t.Parallel() // mostly waiting
	server, err := embedded.Start("")
	require.NoError(t, err)
	defer server.Close()
	out := filepath.Join(t.TempDir(), "pages.jsonl")

	// The workers inherit stderr, so it ends when the last of them has ended.
	stderr, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer stderr.Close()
	cmd := exec.Command(os.Args[0], "-demo-pages", "1000", "-qps", "40", "-redis", server.URL(), "-run", "x", "-out", out)
	cmd.Env = programEnv()
	cmd.Stderr = theirs
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	waitForPages(t, out, 5)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	require.NoError(t, stderr.SetReadDeadline(time.Now().Add(workerStopLimit+5*time.Second)))
	_, err = new(bytes.Buffer).ReadFrom(stderr)
	require.NoError(t, err, "workers are still alive")
	backlog := backlogAt(t, server)
	assert.Zero(t, backlog.active, "tasks were not put back")
	assert.Positive(t, backlog.waiting)
}

func TestFolderIsServedAndCrawled(t *testing.T) {
	t.Parallel() // mostly waiting
	dir := t.TempDir()
	for name, body := range map[string]string{
		"index.html":    `<title>Home</title><a href="sub/a.html">a</a><a href="b.html">b</a><a href="index.html">home</a>`,
		"b.html":        `<title>B</title><a href="secret/x.html">x</a><a href="c.txt">c</a><a href="missing.html">?</a>`,
		"sub/a.html":    `<title>A</title><a href="../b.html#x">b</a>`,
		"secret/x.html": `<title>X</title>`,
		"c.txt":         "text",
		"robots.txt":    "User-agent: *\nDisallow: /secret/\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
	}
	out := filepath.Join(t.TempDir(), "pages.jsonl")
	r := start(t, "-dir", dir, "-qps", "40", "-workers", "2", "-out", out).end(t, 0)
	titles := []string{}
	for _, p := range readPages(t, out) {
		titles = append(titles, p.Title)
	}
	assert.ElementsMatch(t, []string{"Home", "A", "B"}, titles)
	// robots.txt, the three pages, c.txt, missing.html, and index.html, which
	// the file server redirects; and again what the provider refused.
	assert.Equal(t, 7, r.Requests-r.Refused)
}

func TestProgramSaysWhatToDo(t *testing.T) {
	t.Parallel() // mostly waiting
	nowhere := "redis://127.0.0.1:1"
	p := start(t, "-redis", nowhere)
	_ = p.cmd.Wait()
	assert.Equal(t, 1, p.cmd.ProcessState.ExitCode())
	assert.Contains(t, p.stderr.String(), "no Redis answers at 127.0.0.1:1")
	assert.Contains(t, p.stderr.String(), "start one there, or leave -redis out")

	server, err := embedded.Start("")
	require.NoError(t, err)
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	require.NoError(t, example.SaveRun(t.Context(), client, keyOf("taken", "record"), example.Run{Demo: 300, Addrs: []string{server.Addr(), server.Addr(), server.Addr()}}, visitedFor))
	p = start(t, "-redis", server.URL(), "-run", "taken")
	_ = p.cmd.Wait()
	assert.Equal(t, 1, p.cmd.ProcessState.ExitCode())
	assert.Contains(t, p.stderr.String(), "needs the same port again")

	p = start(t, "-redis", server.URL(), "-run", "taken", "-demo-pages", "20")
	_ = p.cmd.Wait()
	assert.Contains(t, p.stderr.String(), "crawls the demo site of 300 pages")
}

// A crawl of the demo that lost a page fails, and so does one that asked for what
// robots.txt forbids.
func TestMissingPagesAreAnError(t *testing.T) {
	none, one := 0, 1
	whole := result{Pages: 60, Complete: true, RobotsViolations: &none}
	for name, c := range map[string]struct {
		change    func(r *result)
		continued bool
		want      string
	}{
		"whole":         {func(*result) {}, false, ""},
		"a page short":  {func(r *result) { r.Pages-- }, false, "59 pages were found of the 60 that the site has; 2 URLs were given up"},
		"a page twice":  {func(r *result) { r.Pages++ }, false, "61 pages were found of the 60"},
		"continued":     {func(r *result) { r.Pages = 3 }, true, ""},
		"stopped early": {func(r *result) { r.Pages, r.Complete = 3, false }, false, ""},
		"impolite":      {func(r *result) { r.RobotsViolations = &one }, false, "1 requests were for URLs that robots.txt forbids"},
	} {
		r := whole
		c.change(&r)
		s := &scene{site: &example.Site{Pages: 60}, continued: c.continued}
		err := s.missing(r, &tally{outcomes: map[visitResult]int{failed: 2}})
		if c.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.want, name)
		}
	}
	assert.NoError(t, (&scene{}).missing(result{Complete: true}, newTally()), "nobody knows what another site has")
}

func backlogAt(t *testing.T, server *embedded.Server) backlog {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	b, err := countBacklog(asynq.NewInspectorFromRedisClient(client), "x")
	require.NoError(t, err)
	return b
}

func readPages(t *testing.T, path string) []example.Page {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var pages []example.Page
	for line := range strings.Lines(string(raw)) {
		var p example.Page
		require.NoError(t, json.Unmarshal([]byte(line), &p), line)
		pages = append(pages, p)
	}
	return pages
}
