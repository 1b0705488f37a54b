package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

// askAgain is the mean delay before a task comes back if Redis did not answer for its limits.
const askAgain = 2 * time.Second

// task is one stay of a task in this worker.
type task struct {
	worker *Worker
	joint  *reserve.Joint
	costs  []int
	id     string    // the ID of its place in the queue
	name   string    // the type of the task, for messages
	last   bool      // last attempt: asynq would archive it, so it cannot be rescheduled
	end    time.Time // when it must be rescheduled or fail; zero: never

	isWorking bool // has a handler
	stoodBy   bool // had its turn before it had a handler
}

// process gives a task its turn and a handler, and runs it.
func (w *Worker) process(ctx context.Context, asynqTask *asynq.Task, next asynq.Handler) error {
	if !w.applied.Load() {
		return invalid("Worker", "call Apply on the asynq.Config before the server is made of it")
	}
	w.rush.arrive(time.Now())
	need, err := w.config.Need(ctx, asynqTask)
	var t *task
	if err == nil {
		t, err = w.task(ctx, asynqTask, need)
	}
	if err != nil {
		return fmt.Errorf("worker: the turn of a task of type %q: %w", asynqTask.Type(), err)
	}
	defer t.rest()
	running := context.WithValue(ctx, passed{w}, true)
	if need.Skip {
		if err := t.work(ctx, nil); err != nil {
			return w.ended(t.noTurn(ctx, nil, err))
		}
		return next.ProcessTask(running, asynqTask)
	}
	r, err := t.wait(ctx)
	if err != nil {
		return w.ended(err)
	}
	defer r.Release()
	settles := &settlement{limits: t.joint.Limits()}
	running = context.WithValue(context.WithValue(running, dueKey{}, r.Due()), settlesKey{}, settles)
	err = next.ProcessTask(running, asynqTask)
	r.Release()
	t.rest()
	t.settle(ctx, r, settles.told(ctx, &w.config, asynqTask, err), settles)
	if err == nil {
		if e := r.Served(ctx); e != nil {
			w.config.Logger.Error("fleetpace: the limit is stopped, though a task was done that probed it: resume it", "limit", t.joint.String(), "error", e)
		}
	}
	return err
}

// ended counts the result of a task that did not run.
func (w *Worker) ended(err error) error {
	if IsWaiting(err) {
		w.putBack.Add(1)
	}
	return err
}

func (w *Worker) task(ctx context.Context, asynqTask *asynq.Task, need Need) (*task, error) {
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	t := &task{
		worker: w,
		id:     turn.ID(queue, id, retried),
		name:   asynqTask.Type(),
		last:   retried >= most,
		end:    endOf(ctx),
	}
	if need.Skip {
		return t, nil
	}
	var err error
	if t.joint, err = turn.Joint(w.turns, turn.Need{Limits: need.Limits, Key: need.Key, Flow: need.Flow, Weight: need.Weight, Urgent: need.Urgent}); err != nil {
		return nil, err
	}
	t.costs, err = turn.Costs(need.Cost, need.Costs, len(t.joint.Limits()))
	return t, err
}

// wait returns when the task has its turn and a handler.
func (t *task) wait(ctx context.Context) (*reserve.Reservation, error) {
	for {
		r, err := t.ask(ctx)
		if err == nil {
			err = t.attend(ctx, r)
		}
		if err == nil {
			return r, nil
		}
		if r != nil {
			r.Release() // it may have had its turn
		}
		if err = t.noTurn(ctx, r, err); err != nil {
			return nil, err
		}
	}
}

// ask joins the queue, or books a turn that is far away.
func (t *task) ask(ctx context.Context) (*reserve.Reservation, error) {
	if err := t.worker.draining.Err(); err != nil {
		return nil, err
	}
	t.worker.asleep.Add(1) // during an outage this may take until the turn
	defer t.worker.asleep.Add(-1)
	ctx, cancel := t.awake(ctx, nil, time.Now().Add(turn.Patience(t.worker.lead)))
	defer cancel()
	return t.joint.Ask(ctx, t.id, t.patience(), t.costs...)
}

// attend sleeps until the turn and takes a handler. If the turn expires before a handler is free,
// it waits for another turn.
func (t *task) attend(ctx context.Context, r *reserve.Reservation) error {
	for {
		if err := t.sleep(ctx, r); err != nil {
			return err
		}
		t.stoodBy = false
		if err := t.work(ctx, r); err != nil {
			return err
		}
		if !r.Lapsed() {
			return nil
		}
		if t.stoodBy {
			t.worker.lapse()
		}
		t.rest() // its next turn is later; other tasks may use the handler
	}
}

// noTurn decides what to do with a task that got no turn, or no handler. Nil means: ask again.
func (t *task) noTurn(ctx context.Context, r *reserve.Reservation, err error) error {
	switch {
	case IsWaiting(err), errors.Is(err, reserve.ErrInvalid), errors.Is(err, reserve.ErrWouldMissDeadline), errors.Is(err, reserve.ErrQueueFull):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.cancel(ctx, r) // asynq counts a failure
		return ctx.Err()
	case ctx.Err() != nil: // the task may be with another worker by now
		t.book(ctx, r)
		return ctx.Err()
	case t.worker.draining.Err() != nil:
		return t.leave(ctx, r)
	case t.last && !t.end.IsZero() && time.Now().After(t.end):
		t.cancel(ctx, r)
		return fmt.Errorf("worker: the task has no turn before its Timeout or Deadline ends: %w", err)
	}
	t.worker.report(err)
	t.book(ctx, r)
	return t.later(ctx, err)
}

// report logs an error that an operator has to fix. The limiter's Logger reports outages.
func (w *Worker) report(err error) {
	do := "see the error"
	switch {
	case errors.Is(err, reserve.ErrClosed):
		do = "close a limiter only after the workers that use it were shut down; restart this process"
	case errors.Is(err, reserve.ErrDenied):
		do = "correct what the error names: the client's options, the rights of its user, or the settings of Redis"
	case errors.Is(err, reserve.ErrCorrupt):
		do = "look at the key that the error names, and delete it if nothing else owns it"
	case errors.Is(err, reserve.ErrVersion):
		do = "stop the processes of the other version, as the error says: then the tasks run"
	case errors.Is(err, redis.ErrClosed):
		do = "close a Redis client only after the workers that use it were shut down; restart this process"
	case errors.Is(err, reserve.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return
	}
	w.trouble.Do(func() {
		w.config.Logger.Error("fleetpace: cannot get turns; tasks are rescheduled and none runs until this is fixed", "error", err, "do", do)
	})
}

// later reschedules the task for a moment, because its limits gave no answer. If the task cannot be
// rescheduled, later waits instead.
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

// leave reschedules the task because the worker drains. It keeps its place.
func (t *task) leave(ctx context.Context, r *reserve.Reservation) error {
	err := &waitingError{back: time.Now()}
	if r != nil {
		t.book(ctx, r)
		err.turn, err.back = r.Due(), r.Due().Add(-t.worker.lead)
	}
	if t.last {
		// asynq puts it back when the server's ShutdownTimeout is over, and ends
		// the context then.
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}
