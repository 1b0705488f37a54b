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
	return append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
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
	timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
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
	}, 20*time.Second, 5*time.Millisecond, "the crawl found no pages")
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
	assert.Len(t, hosts, demoHosts)
	assert.Len(t, workers, 3)
}

// The default program with a smaller site and a higher rate: nothing is
// refused, nothing is fetched twice (the provider counts every request), and
// what robots.txt forbids is left alone.
func TestFleetCrawlsTheDemo(t *testing.T) {
	const n = 90
	inv := takeInventory(t, n)
	out := filepath.Join(t.TempDir(), "pages.jsonl")
	r := start(t, "-demo-pages", "90", "-qps", "40", "-out", out).end(t, 0)

	assert.Zero(t, r.Refused)
	assert.Equal(t, n, r.Pages)
	assert.Equal(t, inv.requests(), r.Requests, "some URL was fetched twice or not at all")
	assert.Equal(t, 3, r.Processes)
	assert.True(t, r.Complete)
	if assert.NotNil(t, r.RobotsViolations) {
		assert.Zero(t, *r.RobotsViolations)
	}
	// Turns that a busy machine oversleeps are lost, so this only says that the
	// frontier is never empty for long; the default run is held to 0.97.
	assert.GreaterOrEqual(t, r.Utilization, 0.5)
	assert.FileExists(t, r.Chart)
	assertWhole(t, out, inv)
}

// Ctrl-C in the middle, then the same command again.
func TestStoppedCrawlContinues(t *testing.T) {
	const n = 90
	inv := takeInventory(t, n)
	server, err := embedded.Start("")
	require.NoError(t, err)
	defer server.Close()
	out := filepath.Join(t.TempDir(), "pages.jsonl")
	args := []string{"-demo-pages", "90", "-qps", "40", "-redis", server.URL(), "-run", "x", "-out", out}

	p := start(t, args...)
	waitForPages(t, out, 25)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	began := time.Now()
	first := p.end(t, 130)
	assert.Less(t, time.Since(began), grace, "the waits did not end at once")
	assert.False(t, first.Complete)
	assert.Less(t, first.Pages, n)

	backlog := backlogAt(t, server)
	assert.Zero(t, backlog.active, "tasks were not put back")
	assert.Positive(t, backlog.waiting)

	second := start(t, args...).end(t, 0)
	assert.True(t, second.Complete)
	assert.Equal(t, n, first.Pages+second.Pages)
	assert.Equal(t, inv.requests(), first.Requests+second.Requests, "some URL was fetched twice or not at all")
	assert.Zero(t, first.Refused+second.Refused)
	assert.Zero(t, *first.RobotsViolations+*second.RobotsViolations)
	assertWhole(t, out, inv)

	third := start(t, args...).end(t, 0)
	assert.Zero(t, third.Requests, "a complete run began again")
}

// kill -9 of the parent: the workers notice, put their tasks back and end.
func TestWorkersDoNotOutliveTheirParent(t *testing.T) {
	server, err := embedded.Start("")
	require.NoError(t, err)
	defer server.Close()
	out := filepath.Join(t.TempDir(), "pages.jsonl")

	// The workers inherit stderr, so it ends when the last of them has ended.
	stderr, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer stderr.Close()
	cmd := exec.Command(os.Args[0], "-demo-pages", "90", "-qps", "40", "-redis", server.URL(), "-run", "x", "-out", out)
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
	assert.Zero(t, r.Refused)
	// robots.txt, the three pages, c.txt, missing.html, and index.html, which
	// the file server redirects.
	assert.Equal(t, 7, r.Requests)
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
	require.NoError(t, saveRecord(t.Context(), client, "taken", record{Demo: 300, Addrs: []string{server.Addr(), server.Addr(), server.Addr()}}))
	p = start(t, "-redis", server.URL(), "-run", "taken")
	_ = p.cmd.Wait()
	assert.Equal(t, 1, p.cmd.ProcessState.ExitCode())
	assert.Contains(t, p.stderr.String(), "needs the same port again")

	p = start(t, "-redis", server.URL(), "-run", "taken", "-demo-pages", "20")
	_ = p.cmd.Wait()
	assert.Contains(t, p.stderr.String(), "crawls the demo site of 300 pages")
}

func backlogAt(t *testing.T, server *embedded.Server) backlog {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	b, err := countBacklog(asynq.NewInspectorFromRedisClient(client), "x")
	require.NoError(t, err)
	return b
}
