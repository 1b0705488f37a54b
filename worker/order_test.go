package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Handlers that are too slow for the limit let turns lapse. No turn is used too late for
// that, and the handlers work all the time.
func TestSlowHandlersWorkAllTheTime(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const tasks, rate, handlers, takes = 80, 100, 2, 60 * time.Millisecond
		f.Allow("api", asynqtest.Bucket(rate, 3)) // a turn may be used for 20 ms
		f.enqueue(0, tasks)
		w, err := worker.New(f.limiter(reserve.PerSecond(rate)), worker.Config{Logger: quiet})
		require.NoError(t, err)
		f.Serve(w, asynqtest.Config(handlers), func(_ context.Context, task *asynq.Task) error {
			f.Call("api", 1)
			f.Ran(string(task.Payload()), 0)
			time.Sleep(takes)
			return nil
		})
		took := f.Await(tasks, time.Minute)
		f.unharmed()
		_, worst := asynqtest.Displaced(f.Calls())
		t.Logf("MEASURE took %v, %d turns lapsed, at worst %d out of place", took, w.Stats().Lapsed, worst)
		require.Positive(t, w.Stats().Lapsed)
		require.Less(t, took, tasks*takes/handlers*11/10)
	})
}

// A turn that lapses as no handler is free is not used: what was told of it is taken back,
// and its permits go to the same task's next turn.
func TestTurnsThatLapseAreNotUsed(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const rate, takes = 20, 75 * time.Millisecond
		f.Allow("api", asynqtest.Bucket(rate, 1))
		f.enqueue(0, 2)
		l := f.Limiter(f.Client(), reserve.Config{Name: "api", Prefix: "lapses", Limit: reserve.PerSecond(rate)})
		w, err := worker.New(l, worker.Config{Logger: quiet})
		require.NoError(t, err)
		f.Serve(w, asynqtest.Config(1), func(_ context.Context, task *asynq.Task) error {
			f.Call("api", 1)
			f.Ran(string(task.Payload()), 0)
			time.Sleep(takes)
			return nil
		})
		took := f.Await(2, time.Minute)
		f.unharmed()
		require.EqualValues(t, 1, w.Stats().Lapsed)
		require.Less(t, took, 2*time.Second/rate, "the permit that lapsed goes back")
		turns := book.Turns("lapses")
		require.Len(t, turns, 2)
		require.Empty(t, ledger.Limit{Rate: rate, Burst: 1}.Faults(turns))
	})
}

// A process ends while its tasks wait. They go on in the other one, in their order, and the
// limit is used all the time: a turn that comes while they are on their way is for who is there.
func TestDrainedTasksKeepTheirPlaces(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const tasks, rate = 200, 10
		f.Allow("api", asynqtest.Bucket(rate, 1))
		f.enqueue(0, tasks)
		_, stop := f.serve(f.limiter(reserve.PerSecond(rate)), worker.Config{}, 10, "api")
		f.serve(f.limiter(reserve.PerSecond(rate)), worker.Config{}, 10, "api")
		f.Until(50, time.Minute)
		stop()
		took := f.Await(tasks, time.Minute)
		f.unharmed()
		worst, early := asynqtest.Overtaken(f.Calls(), rate)
		t.Logf("MEASURE took %v, entries %.2f, at worst %d places late, %d early", took, float64(f.Entries())/tasks, worst, early)
		require.Less(t, took, tasks*time.Second/rate+time.Second)
		require.LessOrEqual(t, worst, rate, "a second")
		require.LessOrEqual(t, early, rate/2, "turns are given half a second ahead")
	})
}

// A queue is paused while its tasks are put back: others have their turns meanwhile, at once.
// When they come, they are before whoever came after them.
func TestAbsentTasksHoldNobodyUp(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		const tasks, rate = 100, 5
		f.Allow("api", asynqtest.Bucket(rate, 1))
		f.enqueue(0, tasks)
		few := worker.Config{WaitingRoom: 2 * rate} // so that most go back at once
		w, _ := f.serve(f.limiter(reserve.PerSecond(rate)), few, 10, "api")
		for w.Stats().PutBack < tasks/2 || f.Info().Pending > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, f.Inspector.PauseQueue(asynqtest.Queue))
		for f.Info().Active > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		before := len(f.Calls())
		others := f.limiter(reserve.PerSecond(rate))
		start := time.Now()
		for range 10 * rate {
			require.NoError(t, others.Wait(t.Context()))
			f.Call("api", 1)
		}
		require.Less(t, time.Since(start), 11*time.Second)
		require.Len(t, f.Calls(), before)

		require.NoError(t, f.Inspector.UnpauseQueue(asynqtest.Queue))
		took := f.Await(tasks, time.Minute)
		f.unharmed()
		last := f.Calls()[tasks-1].At - f.Calls()[before].At
		mean, worst := asynqtest.Displaced(f.Calls())
		t.Logf("MEASURE took %v, after the pause %v, entries %.2f, out of place %.1f, at worst %d", took, last, float64(f.Entries())/tasks, mean, worst)
		require.Less(t, last, time.Duration(tasks-before)*time.Second/rate+3*time.Second)
	})
}
