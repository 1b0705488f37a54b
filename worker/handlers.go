package worker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// stillUsable is how often a task that drains looks whether its turn has lapsed.
	stillUsable = 5 * time.Millisecond

	// stillHeld is how often a task that holds slots, but has no handler yet, looks.
	stillHeld = 100 * time.Millisecond
)

// work takes a handler: the task becomes one of those that work. While the worker drains it
// waits for one no longer than the turn, if there is one, can be used. Slots of a limit go to
// others once the turn has lapsed: the task asks for them again when a handler is free.
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

// rest gives the handler to others.
func (t *task) rest() {
	if t.isWorking {
		t.isWorking = false
		<-t.worker.handlers
	}
}

// lapse notes a turn that no handler was free for.
func (w *Worker) lapse() {
	w.lapsed.Add(1)
	w.hint.Do(func() {
		w.config.Logger.Warn("fleetpace: all handlers are busy, so turns expired unused: raise asynq.Config.Concurrency,"+
			" add processes, or lower the limit", "handlers", cap(w.handlers), "expired_turns", w.lapsed.Load())
	})
}
