// Package asynqtest runs fleets of asynq workers in the simulated time of
// testing/synctest: on one Redis in memory, with connections in memory. Minutes of a
// fleet take a second or two, and are about the same each time. It is for tests.
package asynqtest

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/internal/provider"
)

// Queue is the queue that a fleet works on.
const Queue = "work"

// Fleet is a Redis, and what the tasks of its queue did.
type Fleet struct {
	*bubble.Bubble
	Inspector *asynq.Inspector
	Start     time.Time

	mu      sync.Mutex
	apis    map[string]*provider.Provider
	calls   []Call
	entries int
}

// Call records what a task did.
type Call struct {
	Payload string
	At      time.Duration // since the fleet began
	Process int
}

// Open begins a fleet, inside a bubble. Its processes are a millisecond away from Redis.
func Open(t testing.TB) *Fleet {
	t.Helper()
	f := &Fleet{Bubble: bubble.New(t), Start: time.Now(), apis: map[string]*provider.Provider{}}
	f.Way = time.Millisecond
	f.Inspector = asynq.NewInspectorFromRedisClient(f.Client())
	return f
}

// Config returns the configuration of an asynq server for the fleet.
func Config(handlers int) asynq.Config {
	return asynq.Config{Concurrency: handlers, Queues: map[string]int{Queue: 1}, LogLevel: asynq.FatalLevel}
}

// Middleware is what a server needs from package worker.
type Middleware interface {
	Apply(config *asynq.Config) error
	Middleware(next asynq.Handler) asynq.Handler
	Shutdown(server *asynq.Server)
}

// Serve runs a server until stop is called, or the test ends.
func (f *Fleet) Serve(w Middleware, config asynq.Config, handler asynq.HandlerFunc) (stop func()) {
	f.Helper()
	require.NoError(f, w.Apply(&config))
	server := asynq.NewServerFromRedisClient(f.Client(), config)
	paced := w.Middleware(handler)
	require.NoError(f, server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		f.mu.Lock()
		f.entries++
		f.mu.Unlock()
		return paced.ProcessTask(ctx, task)
	})))
	stop = sync.OnceFunc(func() { w.Shutdown(server) })
	f.Cleanup(stop)
	return stop
}

// Ran notes that a task was done.
func (f *Fleet) Ran(payload string, process int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, Call{payload, time.Since(f.Start), process})
}

// Calls returns the calls made so far, in their order.
func (f *Fleet) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Entries returns how often a task entered a worker.
func (f *Fleet) Entries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries
}

// Info returns what asynq reports about the queue.
func (f *Fleet) Info() *asynq.QueueInfo {
	f.Helper()
	info, err := f.Inspector.GetQueueInfo(Queue)
	require.NoError(f, err)
	return info
}

// Until lets time pass until so many calls were made.
func (f *Fleet) Until(calls int, within time.Duration) {
	f.Helper()
	for start := time.Now(); len(f.Calls()) < calls; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > within {
			info, _ := f.Inspector.GetQueueInfo(Queue) // nil: the queue has had no task yet
			require.FailNow(f, "too few calls", "%d of %d after %v; %+v", len(f.Calls()), calls, within, info)
		}
	}
}

// Await lets time pass until exactly so many calls were made, and returns the time from the first to the
// last.
func (f *Fleet) Await(calls int, within time.Duration) time.Duration {
	f.Helper()
	f.Until(calls, within)
	time.Sleep(100 * time.Millisecond) // an additional call would be made by then
	require.Len(f, f.Calls(), calls)
	all := f.Calls()
	return all[calls-1].At - all[0].At
}

// Displaced returns by how many places calls are out of order, on average and at worst. Their payloads are
// numbers that give the order.
func Displaced(calls []Call) (mean float64, worst int) {
	sum := 0
	for i, c := range calls {
		n, _ := strconv.Atoi(c.Payload)
		sum += max(i-n, n-i)
		worst = max(worst, i-n, n-i)
	}
	return float64(sum) / float64(len(calls)), worst
}

// Overtaken returns by how many places the latest call is later than its order, and how many calls are
// earlier by more than `places`. Their payloads are numbers that give the order.
func Overtaken(calls []Call, places int) (worst, early int) {
	for i, c := range calls {
		n, _ := strconv.Atoi(c.Payload)
		worst = max(worst, i-n)
		if n-i > places {
			early++
		}
	}
	return worst, early
}
