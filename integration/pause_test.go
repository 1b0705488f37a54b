package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// breather is an API that asks for a pause in the middle of a run. It answers one call with 429 and
// Retry-After, and refuses all calls until that time has passed.
type breather struct {
	after int // how many calls come before the pause
	pause time.Duration
	url   string

	mu    sync.Mutex
	calls []breath
	until time.Time
	told  time.Time // when the pause had reached Redis, as reported by the first process that paused
}

// breath is a call as it arrived.
type breath struct {
	at      time.Time
	process string
	nth     int
	early   bool // during the pause
}

func newBreather(t *testing.T, after int, pause time.Duration) *breather {
	b := &breather{after: after, pause: pause}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *breather) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if r.URL.Path == "/told" {
		if b.told.IsZero() {
			b.told = now
		}
		return
	}
	nth, _ := strconv.Atoi(r.FormValue("task"))
	c := breath{now, r.FormValue("process"), nth, now.Before(b.until)}
	b.calls = append(b.calls, c)
	if len(b.calls) == b.after {
		b.until = now.Add(b.pause)
	}
	if left := b.until.Sub(now); left > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((left+time.Second-1)/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// judge expects that the pause holds. A turn that Redis granted after the pause had reached it is
// not due before the pause ends. A process may use older turns, if it did not receive the pause in
// time. These are due at most as far after the pause's start as turns are granted ahead.
func (b *breather) judge(t *testing.T, limit ledger.Limit, turns []ledger.Turn) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.False(t, b.told.IsZero(), "somebody told of the pause")
	keep(t, limit, turns)
	for _, turn := range turns {
		if turn.Told.After(b.told) || turn.Moment().After(b.told.Add(ahead)) {
			require.False(t, turn.Moment().Before(b.until.Add(-time.Millisecond)), "a turn in the pause, %v before its end: %+v",
				b.until.Sub(turn.Moment()), turn)
		}
	}
	early, inFlight := map[string]int{}, 0
	for _, c := range b.calls {
		switch {
		case c.early && c.at.Before(b.told):
			inFlight++
		case c.early:
			early[c.process]++
		}
	}
	last := b.calls[len(b.calls)-1].at
	after := slices.DeleteFunc(slices.Clone(b.calls), func(c breath) bool { return c.at.Before(b.until) })
	measure(t, t.Name(), map[string]any{
		"calls": len(b.calls), "came_while_it_was_told": inFlight, "early": early,
		"telling_ms":       ms(b.told.Sub(b.until.Add(-b.pause))),
		"refused_as_given": limit.RefusedAsGiven(turns),
		"utilization":      round(float64(len(after)) / last.Sub(b.until).Seconds() / limit.Rate),
	})
}

// pauseJob is the job of a process in a run with a pause: calls that come one after the other,
// each made once.
type pauseJob struct {
	Redis, Prefix, Limit, API, Process string
	Turns                              string // the ledger's directory
	Calls                              int
}

const pauseVariable = "FLEETPACE_INTEGRATION_PAUSE"

func workPause(text string) error {
	var j pauseJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if err := keepTurns(j.Turns, j.Process); err != nil {
		return err
	}
	options, err := redis.ParseURL(j.Redis)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	limit, err := reserve.ParseLimit(j.Limit)
	if err != nil {
		return err
	}
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Prefix: j.Prefix, Limit: limit})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var r report
	var turns []int // the calls' numbers, in the order of their turns
	var calls sync.WaitGroup
	for nth := range j.Calls {
		calls.Go(func() {
			for {
				err := limiter.Wait(context.Background())
				mu.Lock()
				turns = append(turns, nth)
				mu.Unlock()
				if err == nil {
					err = callAndPause(context.Background(), limiter, j.API, url.Values{"process": {j.Process}, "task": {strconv.Itoa(nth)}})
				}
				if err == nil {
					return
				}
				mu.Lock()
				r.Errors = append(r.Errors, err.Error())
				mu.Unlock()
			}
		})
		time.Sleep(2 * time.Millisecond) // so that the calls join the queue in order
	}
	calls.Wait()
	r.Calls, r.OutOfOrder = j.Calls, outOfOrder(turns)
	if err := limiter.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// outOfOrder counts turns of calls that came out of their order, by more than two places. Calls are
// numbered from 0, and only the first turn of each counts. The limiter does not decide which of two
// calls of the same moment wakes first.
func outOfOrder(turns []int) (n int) {
	var first []int
	for _, nth := range turns {
		if !slices.Contains(first, nth) {
			first = append(first, nth)
		}
	}
	for i, nth := range first {
		if nth-i > 2 || i-nth > 2 {
			n++
		}
	}
	return n
}

// callAndPause calls the API, and pauses the limit if the response has a Retry-After.
func callAndPause(ctx context.Context, limiter *reserve.Limiter, to string, query url.Values) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := api.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	after := response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil {
		if err := limiter.Pause(ctx, time.Duration(seconds)*time.Second, "Retry-After: "+after); err != nil {
			return err
		}
		if err := reach(to + "/told"); err != nil {
			return err
		}
	}
	return fmt.Errorf("the API answers %d", response.StatusCode)
}

// The API asks for a pause in the middle of a run of 4 processes. The pause holds, and all calls
// are made.
func TestPauseOfAFleet(t *testing.T) {
	long(t, "takes 6 s")
	t.Parallel()
	const rate, processes, calls = 100, 4, 240
	server := redistest.New(t)
	b := newBreather(t, calls/4, 2*time.Second)
	prefix, book := redistest.Prefix(t), t.TempDir()
	var fleet []*worker
	for i := range processes {
		fleet = append(fleet, startProcess(t, pauseVariable, pauseJob{
			Redis: server.URL(), Prefix: prefix, Limit: strconv.Itoa(rate) + "/s", API: b.url,
			Process: strconv.Itoa(i), Turns: book, Calls: calls / processes,
		}))
	}
	displaced, retried := 0, 0
	for _, w := range fleet {
		r := w.report()
		displaced += r.OutOfOrder
		retried += len(r.Errors)
	}
	turns := turnsIn(t, book)
	b.judge(t, ledger.Limit{Rate: rate, Burst: 1}, turns)
	t.Logf("%d calls out of order, %d retried", displaced, retried)
	require.Len(t, b.calls, calls+retried)
	require.Len(t, turns, calls+retried, "a call for each turn")
}
