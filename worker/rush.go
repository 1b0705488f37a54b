package worker

import (
	"sync"
	"time"
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

// stays reports whether a task whose turn is far had better wait here: in a rush
// it might come again too late. It may use half of the waiting room, if that is
// room enough for all turns before its own.
func (t *task) stays(delay time.Duration) bool {
	half := t.worker.places / 2
	return t.worker.asleep.Load() < int64(half) &&
		delay.Seconds()*t.limiter.Limit().Rate() < float64(half) &&
		t.worker.rush.is(time.Now())
}
