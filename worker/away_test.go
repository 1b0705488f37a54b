package worker_test

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// The limiter's Redis is away for a while, and comes back empty. Under local and open tasks
// go on, under wait and fail they are put back until then. None fails, also of those that can
// not be put back, and all of them run soon.
func TestLimiterIsAway(t *testing.T) {
	for _, policy := range []reserve.Policy{reserve.PolicyLocal, reserve.PolicyWait, reserve.PolicyFail, reserve.PolicyOpen} {
		t.Run(string(policy), func(t *testing.T) {
			simulate(t, func(t *testing.T, f *fleet) {
				const tasks, rate, away = 200, 10, 10 * time.Second
				limits := asynqtest.Open(t)
				if policy != reserve.PolicyOpen {
					f.Allow("api", asynqtest.Bucket(rate, 2+rate/10))
				} else {
					f.Allow("api") // anything
				}
				for i := range tasks {
					retries := 5
					if i%10 == 0 {
						retries = 0 // cannot be put back
					}
					f.enqueue(i, i+1, asynq.MaxRetry(retries))
				}
				for range 2 {
					l := limits.Limiter(limits.Client(), reserve.Config{
						Name: "api", Limit: reserve.PerSecond(rate), Outage: reserve.Outage{Policy: policy},
					})
					f.serve(l, worker.Config{WaitingRoom: 2 * rate}, 4, "api")
				}
				f.Until(2*rate, time.Minute)
				limits.Redis.SetError("LOADING Redis is loading the dataset in memory")
				time.Sleep(2 * time.Second)
				before := len(f.Calls())
				time.Sleep(away - 2*time.Second)
				during := len(f.Calls()) - before
				limits.Redis.FlushAll()
				limits.Redis.SetError("")
				f.Await(tasks, 2*time.Minute)
				f.unharmed()
				t.Logf("MEASURE %d ran without Redis, all in %v, entries %.2f", during, f.Calls()[tasks-1].At, float64(f.Entries())/tasks)
				switch policy {
				case reserve.PolicyLocal:
					require.InDelta(t, 0.9*rate*8, during, rate)
				case reserve.PolicyOpen:
					require.Greater(t, during, rate*6, "as they come back")
				default:
					require.Zero(t, during)
				}
				require.Less(t, f.Calls()[tasks-1].At, tasks/rate*time.Second+away+5*time.Second)
			})
		})
	}
}
