//go:build clients

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// limited is the part of an API behind one set of limits.
type limited struct {
	rule     provider.Rule
	use      float64       // calls per second that the limits allow
	slots    int64         // the most calls at once; 0: any
	lasts    time.Duration // each call
	now, top atomic.Int64
	judge    *provider.Provider
}

func (l *limited) ServeHTTP(http.ResponseWriter, *http.Request) {
	n := l.now.Add(1)
	for top := l.top.Load(); n > top && !l.top.CompareAndSwap(top, n); top = l.top.Load() {
	}
	l.judge.Judge(1)
	time.Sleep(l.lasts)
	l.now.Add(-1)
}

// Two servers behind a round-robin proxy, of which one is killed and started again every 10 s for a minute: no caller
// in Python or Node hangs, and slots are exact. What a strict API refuses and how much of each limit is used are figures.
func TestServersAreKilled(t *testing.T) {
	root, err := filepath.Abs("../../clients")
	require.NoError(t, err)
	const seconds = 60
	server, prefix := redistest.New(t), redistest.Prefix(t)
	const limits = `limits:
  - {name: paced, limit: 30/s burst 5}
  - {name: quota, limit: 600/minute quota margin 200ms}
  - {name: rolling, limit: 100/10s rolling margin 200ms}
  - {name: warm, limit: 10/s warmup 2s}
  - {name: slots, limit: 5 at once}
  - {name: rate, limit: 10/s, group: both}
  - {name: some, limit: 4 at once, group: both}
`
	parts := map[string]*limited{
		"paced": {rule: provider.TokenBucket(30, 6), use: 30}, "quota": {rule: provider.FixedWindow(1_000_000, time.Minute), use: 10},
		"rolling": {rule: provider.RollingWindow(100, 10*time.Second), use: 10}, "warm": {rule: provider.TokenBucket(10, 3), use: 10},
		"slots":     {rule: provider.TokenBucket(1_000, 1_000), use: 10, slots: 5, lasts: 500 * time.Millisecond},
		"rate+some": {rule: provider.TokenBucket(10, 3), use: 10, slots: 4, lasts: 200 * time.Millisecond},
	}
	mux := http.NewServeMux()
	for name, part := range parts {
		part.judge = provider.New(part.rule)
		mux.Handle("/"+name, part)
	}
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	servers := []*served{serveTurnsOf(t, server, prefix, limits, "127.0.0.1:0"), serveTurnsOf(t, server, prefix, limits, "127.0.0.1:0")}
	proxy, now := roundRobin(t, servers...), slices.Clone(servers)
	var workers sync.WaitGroup
	var lost atomic.Int64
	began := time.Now()
	run := func(callers int, name string, args ...string) {
		cmd := exec.CommandContext(t.Context(), name, append(args, proxy.URL, api.URL, strconv.Itoa(callers), strconv.Itoa(seconds))...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "python", "src"))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		assert.NoError(t, err)
		n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		assert.NoError(t, err)
		lost.Add(n)
	}
	for range 8 {
		workers.Go(func() { run(2, "python3", "testdata/several.py") })
	}
	for range 4 {
		workers.Go(func() { run(3, "node", "testdata/several.mjs", filepath.Join(root, "typescript", "dist")) })
	}
	for i := range seconds/10 - 1 {
		time.Sleep(time.Until(began.Add(time.Duration(10*(i+1)) * time.Second)))
		now[i%2].kill()
		time.Sleep(time.Second)
		now[i%2] = serveTurnsOf(t, server, prefix, limits, strings.TrimPrefix(servers[i%2].address, "http://"))
	}
	workers.Wait()
	t.Logf("MEASURE all callers ended %v after the last second; slots lost: %d", time.Since(began.Add(seconds*time.Second)).Round(time.Millisecond), lost.Load())
	for name, part := range parts {
		history := part.judge.History()
		refused, minutes := 0, map[int64]int{}
		for _, call := range history {
			minutes[call.At.Unix()/60]++
			if call.Refused {
				refused++
			}
		}
		took := history[len(history)-1].At.Sub(history[0].At)
		t.Logf("MEASURE %-9s %4d calls in %v, %.3f used, %d refused, at most %d at once, per minute %v",
			name, len(history), took.Round(time.Millisecond), float64(len(history)-1)/took.Seconds()/part.use, refused, part.top.Load(), minutes)
		if part.slots > 0 {
			require.LessOrEqual(t, part.top.Load(), part.slots, name)
		}
	}
}
