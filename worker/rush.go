package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// A rush is a time in which asynq's queue is not empty. A server that finds the queue empty polls
// again after half a TaskCheckInterval or more. So as long as tasks arrive without such a gap, more
// tasks are queued in asynq, and a rescheduled task comes back behind all of them.
type rush struct {
	check time.Duration // asynq's TaskCheckInterval

	mu          sync.Mutex
	began, last time.Time // tasks came without a gap from began to last
}

// arrive records the arrival of a task.
func (r *rush) arrive(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) >= r.check/2 {
		r.began = now
	}
	r.last = now
}

// is reports whether there is a rush: tasks have arrived without a gap for longer than the server
// needs for the tasks of one polling interval.
func (r *rush) is(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.began) > r.check && now.Sub(r.last) < 2*r.check
}

// spare is how far away a turn may be for a task to sleep although it could be rescheduled. In a
// rush a rescheduled task might return too late, and with settled costs its turn comes earlier than
// forecast. Such tasks may fill half of the waiting room. None of them has a turn that is too far
// away for that room, and none sleeps for more than half of its time.
func (t *task) spare() time.Duration {
	half := t.worker.places / 2
	limits := t.joint.Limits()
	settles := slices.ContainsFunc(limits, (*reserve.Limiter).Settles)
	if t.worker.asleep.Load() >= int64(half) || !settles && !t.worker.rush.is(time.Now()) {
		return 0
	}
	most := 0.0 // calls per second
	for i, l := range limits {
		most = max(most, l.Limit().Rate()/float64(t.costs[i]))
	}
	spare := time.Duration(float64(half) / most * float64(time.Second))
	if !t.end.IsZero() {
		spare = min(spare, time.Until(t.end)/2)
	}
	return spare
}
