package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/example/web"
)

// testVisitor is one worker without its process, and the parent's end of its
// wire.
type testVisitor struct {
	*visitor
	client    *redis.Client
	inspector *asynq.Inspector
	stopWaits context.CancelFunc

	mu      sync.Mutex
	reports []report
}

// paused is for how long the host is left alone.
func (v *testVisitor) paused(t *testing.T, host string) time.Duration {
	t.Helper()
	state, err := v.turns.hosts.For(host).State(t.Context())
	require.NoError(t, err)
	return state.Paused
}

func newTestVisitor(t *testing.T, hosts ...string) *testVisitor {
	t.Helper()
	client := testRedis(t)
	turns := newTestTurns(t, client, 2000, 2000)
	reader, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() })
	waiting, stopWaits := context.WithCancel(t.Context())
	v := &testVisitor{stopWaits: stopWaits, client: client, inspector: asynq.NewInspectorFromRedisClient(client)}
	v.visitor = &visitor{
		name: "w", turns: turns, fetcher: web.NewFetcher(), up: newReporter(writer),
		frontier: newFrontier(client, "r", hosts), waiting: waiting,
	}
	v.robots = &web.Robots{Redis: client, Prefix: keyOf("r", "robots:"), IsFailure: isFailure, Life: waiting, InScope: v.frontier.inScope, Learned: v.obey, Fetch: func(ctx context.Context, u *url.URL) (web.Answer, error) {
		_, got, err := v.get(ctx, u, true)
		return got, err
	}}
	go func() {
		for lines := json.NewDecoder(reader); ; {
			var line report
			if lines.Decode(&line) != nil {
				return
			}
			v.mu.Lock()
			v.reports = append(v.reports, line)
			v.mu.Unlock()
			if line.Page != nil {
				v.up.saved(line.Number)
			}
		}
	}()
	return v
}

func (v *testVisitor) process(t *testing.T, address string, depth, hops int) error {
	t.Helper()
	payload, err := json.Marshal(target{URL: address, Depth: depth, Hops: hops})
	require.NoError(t, err)
	return v.ProcessTask(t.Context(), asynq.NewTask(visitTask, payload))
}

// told waits for all reports that were sent so far: a note is sent last and
// they come in order.
func (v *testVisitor) told(t *testing.T) []report {
	t.Helper()
	v.up.note("end")
	var all []report
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		all = v.reports
		return len(all) > 0 && all[len(all)-1].Note == "end"
	}, time.Minute, time.Millisecond)
	return all[:len(all)-1]
}

func (v *testVisitor) frontierTargets(t *testing.T) map[string]target {
	t.Helper()
	found := make(map[string]target)
	tasks, err := v.inspector.ListPendingTasks(queueName("r"), asynq.PageSize(100))
	if errors.Is(err, asynq.ErrQueueNotFound) {
		return found
	}
	require.NoError(t, err)
	for _, task := range tasks {
		var to target
		require.NoError(t, json.Unmarshal(task.Payload, &to))
		found[to.URL] = to
	}
	return found
}

func newTestSite(t *testing.T) (base, host string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "User-agent: fleetpace-crawler\nDisallow: /secret\n")
	})
	answer := func(path string, status int, header map[string]string, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			assert.Contains(t, r.UserAgent(), "fleetpace")
			for k, v := range header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
	}
	asHTML := map[string]string{"Content-Type": "text/html; charset=utf-8"}
	answer("/page", 200, asHTML, `<title>T</title><a href="next#x">n</a><a href="http://elsewhere.org/">e</a><a href="next">again</a>`)
	answer("/gone", 404, asHTML, `<title>Gone</title><a href="/page">back</a>`)
	answer("/untyped", 200, map[string]string{"Content-Type": ""}, `<!doctype html><title>U</title>`)
	answer("/image", 200, map[string]string{"Content-Type": "image/png"}, "\x89PNG")
	answer("/broken", 500, nil, "")
	answer("/busy", 429, map[string]string{"Retry-After": "7"}, "")
	answer("/moved", 302, map[string]string{"Location": "/page#there"}, "")
	answer("/away", 301, map[string]string{"Location": "http://elsewhere.org/"}, "")
	answer("/nowhere", 301, map[string]string{"Content-Type": "text/html"}, "<title>no location</title>")
	answer("/huge", 200, asHTML, "<title>H</title>"+strings.Repeat("x", web.MaxBody+1000))
	answer("/secret", 200, asHTML, "<title>S</title>")
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "short")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, strings.TrimPrefix(server.URL, "http://")
}

func TestVisit(t *testing.T) {
	base, host := newTestSite(t)
	for _, c := range []struct {
		path       string
		hops       int
		page       *example.Page // its URL and time are not compared
		outcome    visitResult
		err        string // of an attempt that is made again
		after      time.Duration
		pause      time.Duration // of the host
		onFrontier []string
		status     int // of the request
	}{
		{path: "/page", status: 200, page: &example.Page{Status: 200, Title: "T", Links: []string{base + "/next", "http://elsewhere.org/"}, Bytes: 100},
			onFrontier: []string{"/next"}},
		{path: "/gone", status: 404, page: &example.Page{Status: 404, Title: "Gone", Links: []string{base + "/page"}}, onFrontier: []string{"/page"}},
		{path: "/untyped", status: 200, page: &example.Page{Status: 200, Title: "U", Links: []string{}}},
		{path: "/nowhere", status: 301, page: &example.Page{Status: 301, Title: "no location", Links: []string{}}},
		{path: "/image", status: 200, outcome: notHTML},
		{path: "/secret", outcome: disallowed},
		{path: "/moved", status: 302, outcome: redirected, onFrontier: []string{"/page"}},
		{path: "/moved", hops: web.MaxHops, status: 302, outcome: redirected},
		{path: "/away", status: 301, outcome: redirected},
		{path: "/broken", status: 500, err: "status 500", after: time.Second},
		{path: "/busy", status: 429, err: "status 429", after: 7 * time.Second, pause: 7 * time.Second},
		{path: "/cut", status: 200, err: "unexpected EOF", after: time.Second},
	} {
		t.Run(fmt.Sprintf("%s %d", strings.TrimPrefix(c.path, "/"), c.hops), func(t *testing.T) {
			v := newTestVisitor(t, host)
			err := v.process(t, base+c.path, 3, c.hops)
			paused := v.paused(t, host) // what is left of it
			assert.Equal(t, c.pause > 0, paused > 0)
			assert.LessOrEqual(t, paused, c.pause)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
				assert.True(t, isFailure(err), "the attempt does not count")
				assert.Equal(t, c.after, retryDelay(0, err, nil))
			}

			var got report // all reports in one, without the request for robots.txt
			var statuses []int
			for _, line := range v.told(t) {
				if line.Page != nil {
					got.Page = line.Page
				}
				if line.Outcome != "" {
					got.Outcome = line.Outcome
				}
				if line.Request != nil {
					statuses = append(statuses, line.Request.Status)
				}
			}
			assert.Equal(t, c.outcome, got.Outcome)
			if c.status == 0 {
				assert.Len(t, statuses, 1, "only robots.txt may be asked for")
			} else {
				assert.Equal(t, []int{200, c.status}, statuses, "requests: robots.txt, then the page")
			}
			if c.page == nil {
				assert.Nil(t, got.Page)
			} else if assert.NotNil(t, got.Page) {
				assert.Equal(t, base+c.path, got.Page.URL)
				assert.Equal(t, c.page.Status, got.Page.Status)
				assert.Equal(t, c.page.Title, got.Page.Title)
				assert.Equal(t, c.page.Links, got.Page.Links)
				assert.Equal(t, 3, got.Page.Depth)
				assert.Equal(t, "w", got.Page.Worker)
				assert.WithinDuration(t, time.Now(), got.Page.FetchedAt, time.Minute)
				if c.page.Bytes > 0 {
					assert.InDelta(t, c.page.Bytes, got.Page.Bytes, 40)
				}
			}
			onFrontier := v.frontierTargets(t)
			assert.Len(t, onFrontier, len(c.onFrontier))
			for _, path := range c.onFrontier {
				assert.Contains(t, onFrontier, base+path)
			}
		})
	}
}

func TestLongBodiesAreCutOff(t *testing.T) {
	base, _ := newTestSite(t)
	got, err := web.NewFetcher().Get(t.Context(), mustURL(t, base+"/huge"), false)
	require.NoError(t, err)
	assert.True(t, got.IsHTML)
	assert.Len(t, got.Body, web.MaxBody)
}

func TestRedirectsCountTheirHops(t *testing.T) {
	base, host := newTestSite(t)
	v := newTestVisitor(t, host)
	require.NoError(t, v.process(t, base+"/moved", 2, 1))
	assert.Equal(t, target{URL: base + "/page", Depth: 2, Hops: 2}, v.frontierTargets(t)[base+"/page"])
}

// When the worker stops, a visit that waits ends at once and does not count as
// an attempt.
func TestStopSendsVisitsBackUnfailed(t *testing.T) {
	base, host := newTestSite(t)
	v := newTestVisitor(t, host)
	require.NoError(t, v.turns.slow(t.Context(), host, time.Minute))
	require.NoError(t, v.turns.wait(t.Context(), host)) // the next turn is a minute away
	time.AfterFunc(100*time.Millisecond, v.stopWaits)
	began := time.Now()
	err := v.process(t, base+"/page", 0, 0)
	require.Error(t, err)
	assert.False(t, isFailure(err))
	assert.Zero(t, retryDelay(0, err, nil))
	assert.Less(t, time.Since(began), 5*time.Second)
}

func TestUnreachableHostIsAFailedAttempt(t *testing.T) {
	v := newTestVisitor(t, "127.0.0.1:1")
	err := v.process(t, "http://127.0.0.1:1/", 0, 0)
	require.Error(t, err)
	assert.True(t, isFailure(err))
	assert.NotErrorIs(t, err, asynq.SkipRetry)
}

func TestFrontierTakesEachURLOnce(t *testing.T) {
	client := testRedis(t)
	for process := range 3 {
		f := newFrontier(client, "r", nil) // another process: nothing remembered
		for range 2 {
			isNew, err := f.add(t.Context(), target{URL: "http://h/"})
			require.NoError(t, err)
			assert.Equal(t, process == 0, isNew)
			if process == 0 {
				break
			}
		}
	}
	isNew, err := newFrontier(client, "another run", nil).add(t.Context(), target{URL: "http://h/"})
	require.NoError(t, err)
	assert.True(t, isNew)
	n, err := countBacklog(asynq.NewInspectorFromRedisClient(client), "r")
	require.NoError(t, err)
	assert.Equal(t, backlog{waiting: 1}, n)
}

// A page that the parent never acknowledges must not count as done.
func TestReporterWaitsUntilThePageIsSaved(t *testing.T) {
	var wire bytes.Buffer
	up := newReporter(&wire)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := up.page(ctx, example.Page{URL: "http://h/"})
	require.Error(t, err)
	assert.False(t, isFailure(err))
	assert.Contains(t, wire.String(), "http://h/")
}
