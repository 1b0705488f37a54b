package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// A task holds its slot until its handler is done, whatever becomes of it; no more are in their
// handlers than there are slots, and slots are used one after the other.
func TestConcurrentTasks(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const slots, tasks, takes = 3, 300, 100 * time.Millisecond
		f.Allow("api", asynqtest.Bucket(1000, 1000))
		var mu sync.Mutex
		now, most := 0, 0
		for range 3 {
			w, err := worker.New(f.limiter(reserve.Concurrent(slots)), worker.Config{Logger: quiet})
			require.NoError(t, err)
			f.Serve(w, asynqtest.Config(10), func(_ context.Context, task *asynq.Task) error {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(takes)
				mu.Lock()
				now--
				mu.Unlock()
				f.Call("api", 1)
				f.Ran(string(task.Payload()), 0)
				if len(f.Calls())%10 == 0 {
					panic("a handler that fails")
				}
				return nil
			})
		}
		f.send(tasks, worker.Need{Flow: "any"})
		began := time.Now()
		f.Until(tasks, 2*time.Minute)
		used := tasks * takes.Seconds() / slots / time.Since(began).Seconds()
		t.Logf("MEASURE used %.3f", used)
		require.Equal(t, slots, most)
		require.GreaterOrEqual(t, used, 0.9)
	})
}

// Who is told that its turn is far away comes back for it: slots do not stand idle.
func TestConcurrentBacklog(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const slots, tasks, takes = 2, 60, 2 * time.Second
		f.Allow("api", asynqtest.Bucket(1000, 1000))
		for range 2 {
			w, err := worker.New(f.limiter(reserve.Concurrent(slots)), worker.Config{Logger: quiet})
			require.NoError(t, err)
			f.Serve(w, asynqtest.Config(10), func(_ context.Context, task *asynq.Task) error {
				time.Sleep(takes)
				f.Call("api", 1)
				f.Ran(string(task.Payload()), 0)
				return nil
			})
		}
		f.send(tasks, worker.Need{Flow: "any"})
		began := time.Now()
		f.Until(tasks, 5*time.Minute)
		used := tasks * takes.Seconds() / slots / time.Since(began).Seconds()
		t.Logf("MEASURE used %.3f, entries %.2f", used, float64(f.Entries())/tasks)
		require.GreaterOrEqual(t, used, 0.9)
	})
}

// A process with fewer handlers than there are slots leaves those to others that it cannot use, and
// uses its own when a handler is free.
func TestConcurrentWithFewHandlers(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const slots, tasks, takes = 20, 80, 30 * time.Second
		f.Allow("api", asynqtest.Bucket(1000, 1000))
		var now, most atomic.Int64
		serve := func() {
			w, err := worker.New(f.limiter(reserve.Concurrent(slots)), worker.Config{Logger: quiet, WaitingRoom: 30})
			require.NoError(t, err)
			f.Serve(w, asynqtest.Config(slots/2), func(_ context.Context, task *asynq.Task) error {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(takes)
				now.Add(-1)
				f.Call("api", 1)
				f.Ran(string(task.Payload()), 0)
				return nil
			})
		}
		began := time.Now()
		f.send(tasks, worker.Need{Flow: "any"})
		serve()
		time.Sleep(3 * time.Second) // all slots are given to the first process
		serve()
		time.Sleep(10 * time.Second)
		require.EqualValues(t, slots, now.Load(), "both use their handlers")
		f.Until(tasks, 10*time.Minute)
		used := tasks * takes.Seconds() / slots / time.Since(began).Seconds()
		t.Logf("MEASURE used %.3f, entries %.2f", used, float64(f.Entries())/tasks)
		require.EqualValues(t, slots, most.Load())
		require.GreaterOrEqual(t, used, 0.6, "a slot that comes to a busy process stands idle for a second")
	})
}
