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

// retreat is how long before its time is up a task goes back: when it is up,
// asynq counts a failure.
const retreat = 100 * time.Millisecond

// endOf is when a task has to go back, shortly before its context ends; zero if
// that does not end by itself.
func endOf(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return deadline.Add(-min(retreat, time.Until(deadline)/10))
}

// mayWait is nil if the task should sleep until its turn.
func (t *task) mayWait(ctx context.Context, r *reserve.Reservation) error {
	far := r.Delay() > turn.Patience(t.lead)
	misses := !t.end.IsZero() && (r.Due().After(t.end) || time.Now().After(t.end))
	switch {
	case !misses && (!far || t.last || t.stays(r.Delay())):
		return nil
	case misses && (t.last || t.missesForGood(ctx, r)):
		t.giveBack(ctx)
		return t.missed(r)
	}
	lead := t.lead
	if misses && !far {
		// Its Timeout starts anew when it comes again: nearer to its turn then.
		lead = min(lead, time.Until(t.end)/2)
		t.worker.hint.Do(func() {
			t.worker.config.Logger.Warn("fleetpace: a task has less time than it may have to sleep in its worker, so it"+
				" comes and goes until its turn is near: allow a longer asynq.Timeout",
				"type", t.name, "its time", time.Until(t.end).Round(time.Millisecond), "sleep", turn.Patience(t.lead))
		})
	}
	return t.goBack(ctx, r, lead)
}

// missesForGood reports whether the turn comes after the task's Deadline, so far
// as that is known.
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
	why := "its Timeout or Deadline ends before"
	if t.last {
		why = "its Timeout or Deadline ends before, and in its last attempt a task can not be put back:" +
			" allow it a longer Timeout or one more MaxRetry"
	}
	return fmt.Errorf("worker: the turn of the task comes in %v, %v too late: %s: %w",
		r.Delay().Round(time.Millisecond), r.Due().Sub(t.end).Round(time.Millisecond), why, reserve.ErrWouldMissDeadline)
}

// goBack puts the task back; its number stays in the line. Where that was fixed already
// and has moved away since, by a pause, it waits again, for somebody who is awake then.
func (t *task) goBack(ctx context.Context, r *reserve.Reservation, lead time.Duration) error {
	if r.Final() {
		t.keepPlace(ctx)
	}
	return &waitingError{turn: r.Due(), back: r.Due().Add(-lead)}
}

// sleep waits for the turn. Where the line moves meanwhile, so that the task had
// better go back, the error says so.
func (t *task) sleep(ctx context.Context, r *reserve.Reservation) error {
	t.worker.asleep.Add(1)
	defer t.worker.asleep.Add(-1)
	for {
		until := time.Now().Add(r.Delay() + turn.Patience(t.lead))
		if !t.end.IsZero() && t.end.Before(until) {
			until = t.end
		}
		err := t.sleepUntil(ctx, until, r)
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		if err := t.mayWait(ctx, r); err != nil {
			return err
		}
	}
}

func (t *task) sleepUntil(ctx context.Context, until time.Time, r *reserve.Reservation) error {
	awake, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	defer t.drains(r, cancel)()
	return r.Wait(awake)
}
