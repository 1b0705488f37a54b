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

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// breather is an API that needs a pause in the middle of a run: it answers one call with
// 429 and Retry-After, and refuses all that come before that time is over.
type breather struct {
	after int // that many calls
	pause time.Duration
	url   string

	mu    sync.Mutex
	calls []breath
	until time.Time
	told  time.Time // when the pause had reached Redis, as the first says who paused
}

// breath is a call as it arrived.
type breath struct {
	at      time.Time
	process string
	nth     int
	early   bool // in the pause
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

// verdict is what came of a pause.
type verdict struct {
	Calls     int
	InFlight  int // came in the pause before it had reached Redis …
	Early     map[string]int
	TellingMs float64 // … which took so long
	Refused   int     // afterwards, by a strict provider whose bucket was empty at the end of the pause
	Used      float64 // of the limit, afterwards
}

func (b *breather) judge(perSecond float64, jitter int) verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := verdict{Calls: len(b.calls), Early: map[string]int{}, TellingMs: float64(b.told.Sub(b.until.Add(-b.pause)).Microseconds()) / 1000}
	p := provider.New(provider.TokenBucket(perSecond, jitter))
	p.JudgeAt(b.until, jitter-1) // one is due when it ends
	for _, c := range b.calls {
		switch {
		case c.early && c.at.Before(b.told):
			v.InFlight++
		case c.early:
			v.Early[c.process]++
		case c.at.After(b.until):
			if ok, _ := p.JudgeAt(c.at, 1); !ok {
				v.Refused++
			}
		}
	}
	after := b.calls[len(b.calls)-1].at.Sub(b.until)
	const first = 2 // that call, and the one that emptied the bucket
	v.Used = float64(p.Summary().Requests-first) / (perSecond * after.Seconds())
	return v
}

// fault says what is wrong.
func (v verdict) fault() error {
	for process, n := range v.Early {
		if n > 1 {
			return fmt.Errorf("process %s made %d calls once the pause had reached Redis", process, n)
		}
	}
	if v.Refused > 0 || v.Used < 0.97 {
		return fmt.Errorf("afterwards %d were refused, and %.3f of the limit used", v.Refused, v.Used)
	}
	return nil
}

// pauseJob is what a process does of a run with a pause: calls that come one after the
// other and are made once.
type pauseJob struct {
	Redis, Prefix, Limit, API, Process string
	Calls                              int
}

const pauseVariable = "FLEETPACE_INTEGRATION_PAUSE"

func workPause(text string) error {
	var j pauseJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
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
	var turns []int // in the order in which they came
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
		time.Sleep(2 * time.Millisecond) // so that each comes after the one before it
	}
	calls.Wait()
	r.Calls, r.OutOfOrder = j.Calls, outOfOrder(turns)
	if err := limiter.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// outOfOrder is how many of the turns, of calls that are counted from 0, came to others
// than is their place, those left out that came again. Who wakes first of two calls that
// come or go at the same moment is not the line's to say.
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

// callAndPause calls the API, and does what it asks for with a Retry-After.
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
		call(to + "/told")
	}
	return fmt.Errorf("the API answers %d", response.StatusCode)
}

// The API asks for a pause of 5 s in the middle of a run of 4 processes with 500 calls:
// once that has reached Redis, at most one call of each process comes early, then none
// until it is over, and the rest in order at the pace of the limit.
func TestPauseOfAFleet(t *testing.T) {
	long(t, "takes 12 s")
	calmly(t, pauseFleet)
}

func pauseFleet(t *testing.T) error {
	const rate, processes, calls = 100, 4, 500
	server := redistest.New(t)
	b := newBreather(t, calls*2/5, 5*time.Second)
	prefix := redistest.Prefix(t)
	var fleet []*worker
	for i := range processes {
		fleet = append(fleet, startProcess(t, pauseVariable, pauseJob{
			Redis: server.URL(), Prefix: prefix, Limit: strconv.Itoa(rate) + "/s", API: b.url,
			Process: strconv.Itoa(i), Calls: calls / processes,
		}))
	}
	displaced, retried := 0, 0
	for _, w := range fleet {
		r := w.report()
		displaced += r.OutOfOrder
		retried += len(r.Errors)
	}
	v := b.judge(rate, 10)
	t.Logf("PAUSE %s: %+v, %d calls out of order, %d retried", server.Kind, v, displaced, retried)
	require.Equal(t, calls+retried, v.Calls)
	if displaced > 0 {
		return fmt.Errorf("%d calls out of order", displaced)
	}
	return v.fault()
}

// The same with tasks of asynq: those that sleep in their workers and those that were put
// back.
func TestPauseOfAsynqWorkers(t *testing.T) {
	long(t, "takes 20 s")
	calmly(t, pauseAsynqWorkers)
}

func pauseAsynqWorkers(t *testing.T) error {
	const rate, processes, tasks = 100, 4, 1000
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	b := newBreather(t, 200, 5*time.Second)
	s.job.API, s.job.Pause = b.url, true
	s.enqueue(0, tasks)
	s.rush(func() {
		for i := range processes {
			s.job.Process = strconv.Itoa(i)
			s.start()
		}
	})
	require.True(t, s.settle(40*time.Second, 0), "%+v", s.info())
	v := b.judge(rate, 10)
	var served []int
	for _, c := range b.calls {
		if !c.early {
			served = append(served, c.nth)
		}
	}
	displaced := 0 // by more than a second
	for i, nth := range served {
		if d := nth - i; d < -rate || d > rate {
			displaced++
		}
	}
	slices.Sort(served)
	t.Logf("PAUSE asynq: %+v, %d calls more than a second out of place", v, displaced)
	require.Len(t, slices.Compact(served), tasks)
	require.Zero(t, s.info().Archived)
	if displaced > tasks/50 {
		return fmt.Errorf("%d calls more than a second out of place", displaced)
	}
	return v.fault()
}
