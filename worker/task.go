package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

const (
	// askAgain is after how long, on average, a task comes again whose limiter
	// could not be asked.
	askAgain = 2 * time.Second

	// tidyUp bounds what is still asked of Redis for a task whose own time is up.
	tidyUp = 5 * time.Second

	// retreat is how long before its time is up a task goes back: when it is up,
	// asynq counts a failure.
	retreat = 100 * time.Millisecond

	hintEvery = 10 * time.Second
)

// task is one stay of a task in this worker.
type task struct {
	worker  *Worker
	limiter *reserve.Limiter
	cost    int
	id      string // names its wait in the line
	name    string // for people
	last    bool   // asynq archives it whatever it returns: it can not be put back
	lead    time.Duration
	end     time.Time // when it has to go back, shortly before its context ends; zero: never

	isWorking bool // holds a slot
	stoodBy   bool // had its turn before it had a slot
}

// process gives a task its turn and a slot, and runs it.
func (w *Worker) process(ctx context.Context, asynqTask *asynq.Task, next asynq.Handler) error {
	if !w.applied.Load() {
		return invalid("Worker", "call Apply on the asynq.Config before the server is made of it")
	}
	need, err := w.config.Turn(ctx, asynqTask)
	if err != nil {
		return fmt.Errorf("worker: the turn of a task of type %q: %w", asynqTask.Type(), err)
	}
	t := w.task(ctx, asynqTask, need)
	defer t.rest()
	ctx = context.WithValue(ctx, passed{w}, true)
	if need.Skip {
		if err := t.work(ctx); err != nil {
			if w.draining.Err() != nil {
				return t.leave(ctx, nil)
			}
			return err
		}
		return next.ProcessTask(ctx, asynqTask)
	}
	r, err := t.wait(ctx)
	if err != nil {
		if IsWaiting(err) {
			w.putBack.Add(1)
		}
		return err
	}
	// The ID has to be free before the task can come again. Nobody waits for
	// that: the call has its turn now.
	forgotten := make(chan struct{})
	go func() {
		defer close(forgotten)
		t.forget(ctx, r)
	}()
	defer func() { <-forgotten }()
	return next.ProcessTask(context.WithValue(ctx, dueKey{}, r.Due()), asynqTask)
}

func (w *Worker) task(ctx context.Context, asynqTask *asynq.Task, need Turn) *task {
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	limiter, cost := need.In(w.limiter)
	var end time.Time
	if deadline, ok := ctx.Deadline(); ok {
		end = deadline.Add(-min(retreat, time.Until(deadline)/10))
	}
	return &task{
		worker: w, limiter: limiter, cost: cost,
		id:   turn.ID(queue, id, retried),
		name: asynqTask.Type(),
		last: retried >= most,
		lead: w.lead + max(0, limiter.Lead()-w.limiter.Lead()),
		end:  end,
	}
}

// wait returns when the task has its turn and a slot.
func (t *task) wait(ctx context.Context) (*reserve.Reservation, error) {
	enter := t.enter
	for {
		r, err := t.turn(ctx, enter)
		switch {
		case err == nil && !r.Lapsed():
			return r, nil
		case err == nil:
			if t.stoodBy {
				t.worker.lapse()
			}
			enter = t.claim // whoever has a handler gets the next turn
		case t.worker.draining.Err() != nil:
			return nil, t.leave(ctx, r)
		case ctx.Err() != nil:
			// After a cancellation (the server ended, the lease was lost) the task
			// may be with another worker by now, under the same number.
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.giveBack(ctx)
			}
			return nil, ctx.Err()
		case IsWaiting(err), errors.Is(err, reserve.ErrInvalid), errors.Is(err, reserve.ErrWouldMissDeadline):
			return nil, err
		default:
			// The limiter can not be asked. Its number, if there is one, is kept.
			if err := t.later(ctx, err); err != nil {
				return nil, err
			}
		}
	}
}

// turn gets the task's number, sleeps until its turn and takes a slot.
func (t *task) turn(ctx context.Context, enter func(context.Context) (*reserve.Reservation, error)) (*reserve.Reservation, error) {
	if t.worker.draining.Err() != nil {
		return nil, t.worker.draining.Err()
	}
	t.stoodBy = false
	r, err := enter(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.mayWait(ctx, r); err != nil {
		return nil, err
	}
	if err := t.sleep(ctx, r); err != nil {
		return r, err
	}
	return r, t.work(ctx)
}

func (t *task) enter(ctx context.Context) (*reserve.Reservation, error) {
	return t.limiter.Enter(ctx, t.id, t.cost)
}

func (t *task) claim(ctx context.Context) (*reserve.Reservation, error) {
	return t.limiter.Claim(ctx, t.id, t.cost)
}

// mayWait is nil if the task should sleep until its turn.
func (t *task) mayWait(ctx context.Context, r *reserve.Reservation) error {
	far := r.Delay() > turn.Patience(t.lead)
	misses := !t.end.IsZero() && (r.Due().After(t.end) || time.Now().After(t.end))
	switch {
	case !misses && (!far || t.last):
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
	return t.goBack(r, lead)
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

// goBack puts the task back; its number stays in the line.
func (t *task) goBack(r *reserve.Reservation, lead time.Duration) error {
	return &waitingError{turn: r.Due(), back: r.Due().Add(-lead)}
}

// sleep waits for the turn. Where the line moves meanwhile, so that the task had
// better go back, the error says so.
func (t *task) sleep(ctx context.Context, r *reserve.Reservation) error {
	if t.isWorking && r.Delay() > inlineBound(t.limiter) {
		t.rest() // somebody else may work meanwhile
	}
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
	defer context.AfterFunc(t.worker.draining, cancel)()
	return r.Wait(awake)
}

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

// later puts the task back for a moment, or lets a moment pass where it can not
// be put back.
func (t *task) later(ctx context.Context, cause error) error {
	soon := askAgain/2 + rand.N(askAgain)
	if !t.last {
		return &waitingError{back: time.Now().Add(soon), cause: cause}
	}
	select {
	case <-time.After(soon):
	case <-t.worker.draining.Done():
	case <-ctx.Done():
	}
	return nil
}

// leave puts the task back because the worker drains. The task keeps its number,
// also one that is final: others may use that turn, and the task gets theirs.
func (t *task) leave(ctx context.Context, r *reserve.Reservation) error {
	err := &waitingError{back: time.Now()}
	if r != nil {
		err.turn, err.back = r.Due(), r.Due().Add(-t.lead)
		if r.Delay() <= inlineBound(t.limiter) {
			t.giveBack(ctx)
			t.lineUp(ctx)
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
