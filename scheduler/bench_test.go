package scheduler_test

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
)

// BenchmarkEnqueueAll enqueues 2,000 tasks with their turns, and for comparison
// in a loop of asynq's Enqueue, turn about, so that both see the same machine.
// It reports how much longer or shorter ours takes.
func BenchmarkEnqueueAll(b *testing.B) {
	const tasks = 2000
	redis := redistest.New(b).Client(b)
	queue := redistest.Prefix(b)
	limiter, err := reserve.New(redis, reserve.Config{Name: "api", Prefix: queue, Limit: reserve.PerSecond(100)})
	require.NoError(b, err)
	defer limiter.Close()
	client := asynq.NewClientFromRedisClient(redis)
	s, err := scheduler.New(client, limiter, scheduler.Config{})
	require.NoError(b, err)
	items := make([]scheduler.Item, tasks)
	for i := range items {
		items[i] = scheduler.Item{Task: task(i), Options: []asynq.Option{asynq.Queue(queue)}}
	}

	var ours, loop time.Duration
	for b.Loop() {
		start := time.Now()
		_, err := s.EnqueueAll(b.Context(), items)
		require.NoError(b, err)
		ours += time.Since(start)

		start = time.Now()
		for _, item := range items {
			_, err := client.EnqueueContext(b.Context(), item.Task, asynq.Queue(queue), asynq.ProcessIn(time.Hour))
			require.NoError(b, err)
		}
		loop += time.Since(start)
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N*tasks), "µs/task")
	b.ReportMetric(float64(loop.Microseconds())/float64(b.N*tasks), "µs/task-asynq-loop")
	b.ReportMetric(float64(ours)/float64(loop), "ratio")
}
