package worker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// leave puts the task back because the worker drains. The task keeps its number,
// also one that is final: others may use that turn, and the task gets theirs.
func (t *task) leave(ctx context.Context, r *reserve.Reservation) error {
	err := &waitingError{back: time.Now()}
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
