package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// A fleet finds a backlog, and asynq takes longer to hand it out than a task may sleep. One
// that went back meanwhile would come again behind all of it; so tasks stay while they come
// one after the other.
func TestARush(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const tasks, rate = 400, 20
		f.Allow("api", asynqtest.Bucket(rate, 1))
		f.enqueue(0, tasks)
		f.Way = 5 * time.Millisecond // a task in 10 ms: the last one after 4 s
		w, _ := f.serve(f.limiter(reserve.PerSecond(rate)), worker.Config{}, 10, "api")
		require.Less(t, w.Patience(), tasks*2*f.Way*2/3)
		took := f.Await(tasks, time.Minute)
		f.unharmed()
		_, worst := asynqtest.Displaced(f.Calls())
		entries := float64(f.Entries()) / tasks
		t.Logf("MEASURE took %v, entries %.2f, at worst %d out of place", took, entries, worst)
		require.LessOrEqual(t, worst, rate, "a second")
		require.LessOrEqual(t, entries, 2.0)
		require.Less(t, took, tasks*time.Second/rate+time.Second)
	})
}
