package worker_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Calls that are awake without a number, as after a turn that was overslept, use the
// turns of tasks that are not there. These run next when they come, and not at the end
// of the line.
func TestTasksThatLoseTheirTurnsGetTheNext(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		const rate, tasks, strangers = 4, 28, 2
		s := open(t, server, reserve.PerSecond(rate))
		for i := range tasks {
			s.enqueue(strconv.Itoa(i))
		}
		few := worker.Config{WaitingRoom: 2 * rate} // so that the others go back at once
		w, stop := s.serve(s.config(4), few, s.call)
		s.within(liveness, func() bool { return s.info().Pending == 0 && w.Stats().PutBack > tasks/2 }, "all stand in line")
		stop() // nobody comes for the turns that are next
		for i := range strangers {
			s.within(liveness, func() bool {
				r, err := s.limiter.Claim(t.Context(), fmt.Sprintf("stranger-%d", i), 1)
				return err == nil && r.Final()
			}, "a stranger has a turn")
		}
		s.serve(s.config(4), few, s.call)
		worst := 0
		for i, r := range s.await(tasks, liveness) {
			place, err := strconv.Atoi(r.payload)
			require.NoError(t, err)
			worst = max(worst, i-place, place-i)
		}
		s.paced()
		t.Logf("MEASURE the worst was %d of %d places away from its own", worst, tasks)
	})
}
