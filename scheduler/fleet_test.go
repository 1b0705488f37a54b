package scheduler_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
	"github.com/fleetpace/fleetpace/worker"
)

// A batch is enqueued, and a worker runs it: each task runs once, in a turn of its own.
func TestABatchRunsInItsTurns(t *testing.T) {
	const tasks, rate, burst = 300, 100, 20
	book := ledger.Open()
	defer observe.Turns(nil)
	// The burst lets a turn live for 200 ms, as the machine may be busy.
	d := open(t, redistest.New(t), reserve.PerSecond(rate).Burst(burst), scheduler.Config{})

	w, err := worker.New(d.limiter, worker.Config{})
	require.NoError(t, err)
	config := asynq.Config{Concurrency: 20, Queues: map[string]int{d.queue: 1}, LogLevel: asynq.FatalLevel}
	require.NoError(t, w.Apply(&config))
	server := asynq.NewServerFromRedisClient(d.redis, config)

	var mu sync.Mutex
	var ran []int
	var lateness []time.Duration
	entries := make(map[string]int)
	all := make(chan struct{})
	handler := w.Middleware(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		mu.Lock()
		defer mu.Unlock()
		i, err := strconv.Atoi(string(task.Payload()))
		due, _ := worker.Due(ctx)
		lateness = append(lateness, time.Since(due))
		if ran = append(ran, i); len(ran) == tasks {
			close(all)
		}
		return err
	}))
	counts := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		mu.Lock()
		entries[string(task.Payload())]++
		mu.Unlock()
		return handler.ProcessTask(ctx, task)
	})

	items := make([]scheduler.Item, tasks)
	for i := range items {
		items[i] = d.item(task(i))
	}
	require.NoError(t, server.Start(counts))
	_, err = d.EnqueueAll(t.Context(), items)
	require.NoError(t, err)
	select {
	case <-all:
	case <-time.After(time.Minute):
	}
	w.Shutdown(server)

	mu.Lock()
	defer mu.Unlock()
	require.Len(t, ran, tasks)
	kept := ledger.Limit{Rate: rate, Burst: burst}
	require.Empty(t, kept.Faults(book.Turns(d.queue)))
	again := 0
	for i := range items {
		require.Contains(t, ran, i)
		again += entries[strconv.Itoa(i)] - 1
	}

	var displaced []int
	for place, i := range ran {
		displaced = append(displaced, max(place-i, i-place))
	}
	slices.Sort(displaced)
	slices.Sort(lateness)
	t.Logf("MEASURE %d came up again; out of place: median %d, 95%% %d, worst %d; late: median %v, 95%% %v", again, displaced[tasks/2], displaced[tasks*95/100],
		displaced[tasks-1], lateness[tasks/2], lateness[tasks*95/100])
}
