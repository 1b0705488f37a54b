// Package asynqtest runs fleets of asynq workers in the simulated time of
// testing/synctest: on one Redis in memory, with connections in memory. Minutes of a
// fleet take a second or two, and are about the same each time. It is for tests.
package asynqtest

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// Queue is the one that a fleet works on.
const Queue = "work"

// Fleet is a Redis, and what the tasks of its queue did.
type Fleet struct {
	testing.TB
	Redis     *miniredis.Miniredis
	Client    *redis.Client // of whoever enqueues
	Inspector *asynq.Inspector
	Start     time.Time
	Way       time.Duration // to Redis, and as long back, of connections that are made from now on

	mu      sync.Mutex
	apis    map[string]*provider.Provider
	calls   []Call
	entries int
}

// Call is what a task did.
type Call struct {
	Payload string
	At      time.Duration // since the fleet began
	Process int
}

// Open begins a fleet, inside a bubble.
func Open(t testing.TB) *Fleet {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	f := &Fleet{TB: t, Redis: m, Start: time.Now(), Way: time.Millisecond, apis: map[string]*provider.Provider{}}
	f.Client = f.Dial()
	f.Inspector = asynq.NewInspectorFromRedisClient(f.Client)
	return f
}

// Dial returns the client of one process.
func (f *Fleet) Dial() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			c, err := f.Redis.Dial()
			if err != nil {
				return nil, err
			}
			return newConn(c, f.Way), nil
		},
		// Nothing may leave the bubble: an address that needs no look-up, and none of what a
		// client asks a real server about.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 2000, // a call that waits for a connection shares timers between bubbles
	})
	f.Cleanup(func() { _ = client.Close() })
	return client
}

// Limiter makes one for a process, on a client of its own. It ends with the test.
func (f *Fleet) Limiter(client *redis.Client, config reserve.Config) *reserve.Limiter {
	f.Helper()
	l, err := reserve.New(client, config)
	require.NoError(f, err)
	f.Cleanup(func() { _ = l.Close() })
	return l
}

// Config is that of an asynq server for the fleet.
func Config(handlers int) asynq.Config {
	return asynq.Config{Concurrency: handlers, Queues: map[string]int{Queue: 1}, LogLevel: asynq.FatalLevel}
}

// Middleware is what a server needs of package worker.
type Middleware interface {
	Apply(config *asynq.Config) error
	Middleware(next asynq.Handler) asynq.Handler
	Shutdown(server *asynq.Server)
}

// Serve runs a server until stop is called, or the test ends.
func (f *Fleet) Serve(w Middleware, config asynq.Config, handler asynq.HandlerFunc) (stop func()) {
	f.Helper()
	require.NoError(f, w.Apply(&config))
	server := asynq.NewServerFromRedisClient(f.Dial(), config)
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

// Calls are those that were made so far, in their order.
func (f *Fleet) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Entries is how often a task came into a worker.
func (f *Fleet) Entries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.entries
}

// Info is what asynq says of the queue.
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
			require.FailNow(f, "too few calls", "%d of %d after %v; %+v", len(f.Calls()), calls, within, f.Info())
		}
	}
}

// Await lets time pass until so many calls were made, and no more, and returns how long it
// was from the first to the last.
func (f *Fleet) Await(calls int, within time.Duration) time.Duration {
	f.Helper()
	f.Until(calls, within)
	time.Sleep(100 * time.Millisecond) // more than those would show
	require.Len(f, f.Calls(), calls)
	all := f.Calls()
	return all[calls-1].At - all[0].At
}

// Displaced is by how many places the payloads of calls, which are numbers, are out of
// their order, on average and at worst.
func Displaced(calls []Call) (mean float64, worst int) {
	sum := 0
	for i, c := range calls {
		n, _ := strconv.Atoi(c.Payload)
		sum += max(i-n, n-i)
		worst = max(worst, i-n, n-i)
	}
	return float64(sum) / float64(len(calls)), worst
}
