package reserve

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// waiter is a call that waits in this process. At first it rides: it shares a trip to
// Redis with others, and is granted its turn when that comes back, if it is due by
// then. If not, it stands in a queue until its turn has come.
type waiter struct {
	cost     int64
	deadline time.Time // zero: none
	arrival  int64     // in the order in which calls came
	blind    bool      // while it rides it sees nothing but done
	lone     bool      // it does not stand: it asks again, in its own way
	stage    atomic.Int32
	done     chan struct{} // holds one when the stage has changed

	// Of one that stands.
	ticket *ticket
	err    error
	queue  *queue
	place  *list.Element // in its queue; nil once it left
	ask    *ask          // its request; nil for a call that keeps its number
	own    *ticket       // of a call that keeps its number
}

// The stages of a waiter. From riding to the next there are three ways, and whoever
// changes the stage first decides.
const (
	riding   int32 = iota // or about to
	left                  // the caller did; nobody reads the outcome
	granted               // its turn is now
	standing              // in a queue, or, alone, turned away
	finished              // with a ticket or an error
)

// riders are calls that were granted their turns: no queue knows them, so they are used
// again. Each Limiter has its own: a channel is not for two tests of package synctest.
type riders struct{ pool sync.Pool }

// get is a call that is about to ride.
func (r *riders) get(cost int64, deadline time.Time) *waiter {
	w, ok := r.pool.Get().(*waiter)
	if !ok {
		w = &waiter{done: make(chan struct{}, 1)}
	}
	w.cost, w.deadline, w.blind, w.lone, w.ask = cost, deadline, false, false, nil
	w.stage.Store(riding)
	return w
}

// put takes one back that was granted its turn and has heard of it.
func (r *riders) put(w *waiter) { r.pool.Put(w) }

// newWaiter is a call that stands.
func newWaiter(deadline time.Time) *waiter {
	w := &waiter{deadline: deadline, done: make(chan struct{}, 1)}
	w.stage.Store(standing)
	return w
}

// turn ends the ride: the next stage is one of left, granted and standing. It reports
// false when the ride was over.
func (w *waiter) turn(stage int32) bool { return w.stage.CompareAndSwap(riding, stage) }

// tell wakes the caller, unless it is about to wake anyway.
func (w *waiter) tell() {
	select {
	case w.done <- struct{}{}:
	default:
	}
}

// over reports whether the caller can go.
func (w *waiter) over() bool {
	stage := w.stage.Load()
	return stage == granted || stage == finished
}

// finish ends the wait of one that stands.
func (w *waiter) finish(t *ticket, err error) {
	w.ticket, w.err = t, err
	w.stage.Store(finished)
	w.tell()
}

// leave takes a waiter out of its queue; it does no harm to one that left.
func (w *waiter) leave() {
	if w.place != nil {
		w.queue.waiters.Remove(w.place)
		w.place = nil
	}
}
