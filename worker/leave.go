package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// drains ends a sleep when the worker drains, unless the turn is fixed or just being
// fixed: then it is so near that hardly anybody else would find it in time, and the
// task would stand at the end of the line. The others do not leave all at once, so
// that they do not make those late, but each before its own turn would be fixed. It
// returns what undoes it.
func (t *task) drains(r *reserve.Reservation, wake context.CancelFunc) (undo func() bool) {
	return context.AfterFunc(t.worker.draining, func() {
		// Along with a turn that is a Lead ahead those are claimed that are little later.
		claimed := t.limiter.Lead() * 5 / 4
		if until := r.Delay() - claimed; until <= 0 || r.Final() {
			time.AfterFunc(inlineBound(t.limiter), wake) // it may have moved away
		} else {
			time.AfterFunc(rand.N(min(until, claimed/2)+1), wake)
		}
	})
}

// leave puts the task back because the worker drains. The task keeps its number,
// also one that is final, if no handler was free for it: others may use that turn,
// and the task gets theirs. For one that lapsed it has the next.
func (t *task) leave(ctx context.Context, r *reserve.Reservation) error {
	err := &waitingError{back: time.Now()}
	if r != nil && r.Lapsed() {
		if next, failed := t.claim(ctx); failed == nil {
			r = next
		}
	}
	if r != nil {
		err.turn, err.back = r.Due(), r.Due().Add(-t.lead)
		if r.Delay() <= inlineBound(t.limiter) {
			t.keepPlace(ctx)
		}
	}
	if t.last {
		// asynq puts it back when the server's ShutdownTimeout is over, and ends
		// the context then.
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// inlineBound is how near a turn may be fixed.
func inlineBound(l *reserve.Limiter) time.Duration { return 2 * l.Lead() }
