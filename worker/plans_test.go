package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Tasks of a customer have the limit of its plan. When the customer upgrades, those that wait follow.
func TestTasksFollowPlans(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const tasks = 60
		var version atomic.Int64
		version.Store(1)
		f.Allow("api", asynqtest.Bucket(50, 5))
		f.enqueue(0, tasks)
		l := f.Limiter(f.Client(), reserve.Config{Name: "api", Prefix: "plans", Limit: reserve.PerMinute(1), LimitOf: func(key string) (reserve.Limit, int64) {
			if v := version.Load(); key == "acme" && v > 1 {
				return reserve.PerSecond(40), v
			}
			return reserve.PerSecond(5), 1
		}})
		w, err := worker.New(l, worker.Config{Logger: quiet, Need: func(context.Context, *asynq.Task) (worker.Need, error) { return worker.Need{Key: "acme"}, nil }})
		require.NoError(t, err)
		time.AfterFunc(2*time.Second, func() { version.Store(2) })
		f.Serve(w, asynqtest.Config(20), func(_ context.Context, task *asynq.Task) error {
			f.Call("api", 1)
			f.Ran(string(task.Payload()), 0)
			return nil
		})
		took := f.Await(tasks, time.Minute)
		f.unharmed()
		t.Logf("MEASURE took %v", took)
		require.Less(t, took, 11*time.Second)
		require.Equal(t, "40/s", l.For("acme").Limit().String())
	})
}
