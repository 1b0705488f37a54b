package worker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// stillUsable is how often a task that drains looks whether its turn has lapsed.
const stillUsable = 5 * time.Millisecond

// work takes a slot: the task becomes one of those that work. While the worker drains it
// waits for one no longer than the turn, if there is one, can be used.
func (t *task) work(ctx context.Context, r *reserve.Reservation) error {
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
	draining := t.worker.draining.Done()
	var look <-chan time.Time
	for {
		select {
		case t.worker.slots <- struct{}{}:
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
		if draining == nil && (r == nil || r.Lapsed()) {
			return t.worker.draining.Err()
		}
	}
}

// rest gives the slot to others.
func (t *task) rest() {
	if t.isWorking {
		t.isWorking = false
		<-t.worker.slots
	}
}

// lapse notes a turn that no handler was free for.
func (w *Worker) lapse() {
	w.lapsed.Add(1)
	w.hint.Do(func() {
		w.config.Logger.Warn("fleetpace: turns pass while no handler is free: set a higher asynq.Config.Concurrency,"+
			" run more processes, or lower the limit", "handlers", cap(w.slots), "turns so far", w.lapsed.Load())
	})
}
