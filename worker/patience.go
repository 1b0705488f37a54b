package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// retreat is how long before its time is up a task is rescheduled: when it is up, asynq counts
	// a failure.
	retreat = 100 * time.Millisecond

	// forever is the patience of a task that cannot be rescheduled.
	forever = 365 * 24 * time.Hour

	// nearly is how long a draining task waits for a granted turn.
	nearly = time.Second
)

// endOf is when a task has to be rescheduled, shortly before its context ends; zero if the context
// has no deadline.
func endOf(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return deadline.Add(-min(retreat, time.Until(deadline)/10))
}

// patience is how far away a turn may be for the task to sleep until then.
func (t *task) patience() time.Duration {
	patience := max(turn.Patience(t.worker.lead), t.spare())
	if t.last {
		patience = forever
	}
	if !t.end.IsZero() {
		patience = min(patience, time.Until(t.end))
	}
	return max(0, patience)
}

// sleep waits for the turn. If the turn is far away, or moves away during the sleep, the task is
// rescheduled, or fails, and the error says so.
func (t *task) sleep(ctx context.Context, r *reserve.Reservation) error {
	t.worker.asleep.Add(1)
	defer t.worker.asleep.Add(-1)
	for !r.Booked() && r.Delay() < t.patience() {
		awake, cancel := t.awake(ctx, r, time.Now().Add(r.Delay()+turn.Patience(t.worker.lead)))
		err := r.Wait(awake)
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
	return t.goBack(ctx, r)
}

// awake returns the context of a sleep. It ends at a moment, and before the task's time is up. It
// also ends when the worker drains, unless the turn is granted already, because such a turn is
// near.
func (t *task) awake(ctx context.Context, r *reserve.Reservation, until time.Time) (context.Context, func()) {
	if !t.end.IsZero() && t.end.Before(until) || t.last && r == nil {
		until = t.end
	}
	var cancel context.CancelFunc
	if until.IsZero() {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithDeadline(ctx, until)
	}
	stop := context.AfterFunc(t.worker.draining, func() {
		if r == nil || r.Granted() {
			time.AfterFunc(nearly, cancel)
		} else {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// goBack reschedules the task for shortly before its turn, or fails a task for which that is too
// late.
func (t *task) goBack(ctx context.Context, r *reserve.Reservation) error {
	far := r.Delay() > turn.Patience(t.worker.lead)
	misses := !t.end.IsZero() && (r.Due().After(t.end) || time.Now().After(t.end))
	if t.last || misses && t.missesForGood(ctx, r) {
		t.cancel(ctx, r)
		return t.missed(r)
	}
	lead := t.worker.lead
	if misses && !far {
		// Its Timeout restarts when it comes back, closer to its turn.
		lead = min(lead, max(0, time.Until(t.end)/2))
		t.worker.hint.Do(func() {
			t.worker.config.Logger.Warn("fleetpace: the Timeout of a task is shorter than it may sleep in its worker, so the task"+
				" is rescheduled several times until its turn is near: set a longer asynq.Timeout",
				"type", t.name, "time_left", time.Until(t.end).Round(time.Millisecond), "sleep", turn.Patience(t.worker.lead))
		})
	}
	t.book(ctx, r)
	return &waitingError{turn: r.Due(), back: r.Due().Add(-lead)}
}

// missesForGood reports whether the turn comes after the task's Deadline, if that is known.
func (t *task) missesForGood(ctx context.Context, r *reserve.Reservation) bool {
	inspector := t.worker.config.Inspector
	if inspector == nil {
		return false
	}
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	info, err := inspector.GetTaskInfo(queue, id)
	return err == nil && !info.Deadline.IsZero() && r.Due().After(info.Deadline)
}

func (t *task) missed(r *reserve.Reservation) error {
	advice := "raise its Timeout or Deadline"
	if t.last {
		advice += ", or its MaxRetry: in its last attempt a task cannot be rescheduled"
	}
	return fmt.Errorf("worker: the task cannot run in time: its turn is in %v, but its Timeout or Deadline ends in %v; %s: %w",
		r.Delay().Round(time.Millisecond), max(0, time.Until(t.end)).Round(time.Millisecond), advice, reserve.ErrWouldMissDeadline)
}
