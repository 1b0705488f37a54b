package worker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// stillUsable is how often a draining task checks whether its turn has expired.
	stillUsable = 5 * time.Millisecond

	// stillHeld is how often a task that holds slots, but has no handler yet, checks that.
	stillHeld = 100 * time.Millisecond
)

// work takes a handler. While the worker drains, it waits for a handler only as long as its turn is
// usable. When the turn has expired, its slots go to other calls, and the task asks for them again
// when a handler is free.
func (t *task) work(ctx context.Context, r *reserve.Reservation) error {
	select {
	case t.worker.handlers <- struct{}{}:
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
	draining := t.worker.draining.Done()
	var look <-chan time.Time
	if r != nil && r.Lost() != nil {
		ticker := time.NewTicker(stillHeld)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case t.worker.handlers <- struct{}{}:
			t.isWorking = true
			return nil
		case <-up:
			t.book(ctx, r)
			return &waitingError{back: time.Now()}
		case <-ctx.Done():
			return ctx.Err()
		case <-draining:
			draining = nil
			ticker := time.NewTicker(stillUsable)
			defer ticker.Stop()
			look = ticker.C
		case <-look:
		}
		if r != nil && r.Lapsed() {
			r.Release()
			look = nil
		}
		if draining == nil && (r == nil || r.Lapsed()) {
			return t.worker.draining.Err()
		}
	}
}

// rest frees the handler.
func (t *task) rest() {
	if t.isWorking {
		t.isWorking = false
		<-t.worker.handlers
	}
}

// lapse counts a turn that expired because no handler was free.
func (w *Worker) lapse() {
	w.lapsed.Add(1)
	w.hint.Do(func() {
		w.config.Logger.Warn("fleetpace: all handlers are busy, so turns expired unused: raise asynq.Config.Concurrency,"+
			" add processes, or lower the limit", "handlers", cap(w.handlers), "expired_turns", w.lapsed.Load())
	})
}
