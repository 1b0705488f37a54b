package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/reserve"
)

// turnCounter gives every turn at once and counts them; it fails from the turn
// on that has number failAt.
type turnCounter struct {
	given  atomic.Int64
	failAt int64
	err    error
}

func (c *turnCounter) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if n := c.given.Add(1); c.failAt > 0 && n >= c.failAt {
		return c.err
	}
	return nil
}

// scriptedAPI answers the calls for each record by its script; the last word is
// repeated. It counts all requests that arrive, whoever sent them.
type scriptedAPI struct {
	*httptest.Server
	script map[string][]int

	mu       sync.Mutex
	requests int
	calls    map[string]int
}

// hangUp stands for a connection that breaks before the answer.
const hangUp = -1

func newScriptedAPI(t *testing.T, script map[string][]int) *scriptedAPI {
	a := &scriptedAPI{script: script, calls: make(map[string]int)}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *scriptedAPI) serve(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Idempotency-Key")
	a.mu.Lock()
	a.requests++
	a.calls[id]++
	script := a.script[id]
	code := script[min(a.calls[id], len(script))-1]
	a.mu.Unlock()
	switch code {
	case hangUp:
		panic(http.ErrAbortHandler)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "0")
	case http.StatusPermanentRedirect:
		w.Header().Set("Location", a.URL+"/elsewhere")
	}
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"code":%d}`, code)
}

func newPipeline(t *testing.T, turns interface{ Wait(context.Context) error }, url string, concurrency int) *pipeline {
	t.Helper()
	out, _, err := example.OpenJournal(filepath.Join(t.TempDir(), "out.jsonl"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, out.Close()) })
	api := newAPIClient(url, nil, concurrency)
	t.Cleanup(api.close)
	return &pipeline{turns: turns, api: api, journal: out, concurrency: concurrency}
}

func recordsOf(ids ...string) []example.Record {
	var records []example.Record
	for _, id := range ids {
		records = append(records, example.Record{ID: id, Body: []byte(`{}`)})
	}
	return records
}

// TestTurnPerAttempt proves that every request that reaches the API had a turn
// of its own, also after a connection broke, and which answers are tried again.
func TestTurnPerAttempt(t *testing.T) {
	script := map[string][]int{
		"at-once":   {200},
		"broken":    {hangUp, 201}, // on a kept connection: net/http would send it again itself
		"third":     {503, 500, 200},
		"throttled": {429, 200},
		"invalid":   {422},
		"missing":   {404},
	}
	api := newScriptedAPI(t, script)
	turns := &turnCounter{}
	p := newPipeline(t, turns, api.URL, 1)
	var seen tally
	p.changed = func(now tally) { seen = now }
	require.NoError(t, p.run(t.Context(), recordsOf("at-once", "broken", "third", "throttled", "invalid", "missing")))

	assert.EqualValues(t, 10, turns.given.Load())
	assert.Equal(t, 10, api.requests)
	for id, s := range script {
		assert.Equal(t, len(s), api.calls[id], id)
		want := example.Done
		if s[0]/100 == 4 && s[0] != 429 {
			want = example.Failed
		}
		assert.Equal(t, want, p.journal.Statuses()[id], id)
	}
	assert.Equal(t, 4, seen.done)
	assert.Equal(t, 2, seen.failed)
	assert.Equal(t, 4, seen.retried)
	s := p.api.meter.Summary()
	assert.Equal(t, 10, s.Requests)
	assert.Equal(t, 1, s.Refused)
}

// TestStopsWhenAllAreConcerned proves that a run does not go through the whole
// input noting failures when the failure is not about the record.
func TestStopsWhenAllAreConcerned(t *testing.T) {
	lost := errors.New("the limit is gone")
	for name, tt := range map[string]struct {
		code  int
		turns *turnCounter
		want  string
	}{
		"wrong key":  {401, &turnCounter{}, "the API refuses us: 401 Unauthorized"},
		"unpaid":     {402, &turnCounter{}, "402 Payment Required"},
		"moved":      {308, &turnCounter{}, "/elsewhere"},
		"lost limit": {200, &turnCounter{failAt: 1, err: lost}, "wait for a turn: the limit is gone"},
		"closed one": {200, &turnCounter{failAt: 1, err: reserve.ErrClosed}, reserve.ErrClosed.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			script := make(map[string][]int)
			var ids []string
			for i := range 50 {
				ids = append(ids, fmt.Sprint(i))
				script[ids[i]] = []int{tt.code}
			}
			api := newScriptedAPI(t, script)
			p := newPipeline(t, tt.turns, api.URL, 2)
			assert.ErrorContains(t, p.run(t.Context(), recordsOf(ids...)), tt.want)
			assert.LessOrEqual(t, api.requests, 2, "one per worker")
			assert.Empty(t, p.journal.Statuses())
		})
	}
}

// TestRedisComesBack proves that a failure of Redis is ridden out, and that no
// call is made without a turn.
func TestRedisComesBack(t *testing.T) {
	api := newScriptedAPI(t, map[string][]int{"a": {200}})
	turns := &flakyTurns{failures: 2}
	p := newPipeline(t, turns, api.URL, 1)
	require.NoError(t, p.run(t.Context(), recordsOf("a")))
	assert.Equal(t, 1, api.requests)
	assert.Equal(t, example.Done, p.journal.Statuses()["a"])
	assert.Equal(t, 2, p.tally.retried)
}

type flakyTurns struct{ failures int }

func (f *flakyTurns) Wait(context.Context) error {
	if f.failures--; f.failures >= 0 {
		return &reserve.Error{Op: "wait", Key: "k", Err: reserve.ErrUnavailable}
	}
	return nil
}

// TestConcurrencyIsBounded proves that as many records are in work as allowed,
// and never more.
func TestConcurrencyIsBounded(t *testing.T) {
	const bound = 3
	var now, most atomic.Int64
	full := make(chan struct{}) // closed when bound calls are in work together
	var once sync.Once
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == bound {
			once.Do(func() { close(full) })
		}
		select {
		case <-full:
			time.Sleep(2 * time.Millisecond) // time for one too many to show up
		case <-time.After(10 * time.Second):
			t.Error("never in work together:", bound)
		}
		fmt.Fprint(w, `{}`)
	}))
	defer api.Close()
	p := newPipeline(t, &turnCounter{}, api.URL, bound)
	var ids []string
	for i := range 30 {
		ids = append(ids, fmt.Sprint(i))
	}
	require.NoError(t, p.run(t.Context(), recordsOf(ids...)))
	assert.EqualValues(t, bound, most.Load())
	assert.Len(t, p.journal.Statuses(), 30)
}

// TestRetryAfter proves that both forms of the header are understood.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0":                             0,
		"7":                             7 * time.Second,
		"Fri, 01 Mar 2030 12:00:30 GMT": 30 * time.Second,
		"Fri, 01 Mar 2030 11:00:00 GMT": 0,
	} {
		got, ok := retryAfter(value, now)
		assert.True(t, ok, value)
		assert.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "-1", "soon", "1.5"} {
		_, ok := retryAfter(value, now)
		assert.False(t, ok, value)
	}
}
