package worker

import (
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// A rush is a time in which asynq's queue is not empty. A server that finds it
// empty looks again after half a TaskCheckInterval or more, so while tasks come
// without such a gap, more stand behind them; and a task that goes back has to
// stand behind all of these when it comes again.
type rush struct {
	check time.Duration // asynq's TaskCheckInterval

	mu          sync.Mutex
	began, last time.Time // tasks came without a gap from began to last
}

// arrive notes that a task came.
func (r *rush) arrive(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) >= r.check/2 {
		r.began = now
	}
	r.last = now
}

// is reports whether there is a rush: it has lasted for longer than it takes to
// get what became due between two looks, and the server has not looked in vain
// since.
func (r *rush) is(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.began) > r.check && now.Sub(r.last) < 2*r.check
}

// spare is how far away a turn may be for a task to sleep until then though it could be
// put back: in a rush it might come again too late, and where costs are settled its turn
// comes earlier than is forecast. Such tasks have half of the waiting room, none of them has
// a turn for which that is not room enough, and none sleeps for more than half of its time.
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
