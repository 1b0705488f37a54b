package integration

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// TestPauseOfAFleet with tasks of asynq: some sleep in their workers, and others are rescheduled.
func TestPauseOfAsynqWorkers(t *testing.T) {
	long(t, "takes 8 s")
	t.Parallel()
	const rate, processes, tasks = 100, 4, 300
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	b := newBreather(t, 60, 2*time.Second)
	s.job.API, s.job.Pause = b.url, true
	s.enqueue(0, tasks)
	s.rush(func() {
		for i := range processes {
			s.job.Process = strconv.Itoa(i)
			s.start()
		}
	})
	s.done(0)
	b.judge(t, s.limit, turnsIn(t, s.ledger))
	var served []int
	for _, c := range b.calls {
		if !c.early {
			served = append(served, c.nth)
		}
	}
	slices.Sort(served)
	require.Len(t, slices.Compact(served), tasks)
}
