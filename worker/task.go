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

// askAgain is after how long, on average, a task comes again whose limiter could
// not be asked.
const askAgain = 2 * time.Second

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
	w.rush.arrive(time.Now())
	need, err := w.config.Turn(ctx, asynqTask)
	if err != nil {
		return fmt.Errorf("worker: the turn of a task of type %q: %w", asynqTask.Type(), err)
	}
	t := w.task(ctx, asynqTask, need)
	defer t.rest()
	ctx = context.WithValue(ctx, passed{w}, true)
	if need.Skip {
		if err := t.work(ctx, nil); err != nil {
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
	return &task{
		worker: w, limiter: limiter, cost: cost,
		id:   turn.ID(queue, id, retried),
		name: asynqTask.Type(),
		last: retried >= most,
		lead: w.lead + max(0, limiter.Lead()-w.limiter.Lead()),
		end:  endOf(ctx),
	}
}

// wait returns when the task has its turn and a slot.
func (t *task) wait(ctx context.Context) (*reserve.Reservation, error) {
	enter := t.enter
	var r *reserve.Reservation
	for {
		next, err := t.turn(ctx, enter)
		if next != nil {
			r = next
		}
		switch {
		case err == nil && !r.Lapsed():
			return r, nil
		case err == nil:
			if t.stoodBy {
				t.worker.lapse()
			}
			t.rest() // its next turn is not now: others' may be
			enter = t.claim
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
			// The limiter can not be asked. The task's number, if there is one, is kept.
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
	if err := t.fits(); err != nil {
		return nil, err
	}
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
	return r, t.work(ctx, r)
}

func (t *task) enter(ctx context.Context) (*reserve.Reservation, error) {
	return t.limiter.Enter(ctx, t.id, t.cost)
}

func (t *task) claim(ctx context.Context) (*reserve.Reservation, error) {
	return t.limiter.Claim(ctx, t.id, t.cost)
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
