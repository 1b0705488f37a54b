package worker

import (
	"context"
	"time"
)

// work takes a slot: the task becomes one of those that work.
func (t *task) work(ctx context.Context) error {
	if t.isWorking {
		return nil
	}
	select {
	case t.worker.slots <- struct{}{}:
		t.isWorking = true
		return nil
	default:
		t.stoodBy = true
	}
	var up <-chan time.Time
	if !t.end.IsZero() && !t.last {
		timer := time.NewTimer(time.Until(t.end))
		defer timer.Stop()
		up = timer.C
	}
	select {
	case t.worker.slots <- struct{}{}:
		t.isWorking = true
		return nil
	case <-up:
		t.giveBack(ctx)
		return &waitingError{back: time.Now()}
	case <-ctx.Done():
		return ctx.Err()
	case <-t.worker.draining.Done():
		return t.worker.draining.Err()
	}
}

// rest gives the slot to others.
func (t *task) rest() {
	if t.isWorking {
		t.isWorking = false
		<-t.worker.slots
	}
}
