package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
)

// A Scheduler enqueues tasks so that each comes up when it has its turn. Tasks
// are booked in the order in which they are enqueued, over all processes of the
// fleet. Make one with [New]; it keeps nothing open and is safe for concurrent
// use. Many tasks are best enqueued with [Scheduler.EnqueueAll].
type Scheduler struct {
	client *asynq.Client
	turns  reserve.Turns
	config Config
}

// New makes a Scheduler that enqueues with client, for turns of a [reserve.Limiter] or a
// [reserve.Joint], unless the Need of a task names other limits. Client and limits may use
// different Redis servers. New sends nothing to either. The error is an [ErrInvalid] that names the
// field.
func New(client *asynq.Client, turns reserve.Turns, config Config) (*Scheduler, error) {
	err := config.validate()
	switch {
	case client == nil:
		err = invalid("client", "must not be nil")
	case turns == nil:
		err = invalid("turns", "must not be nil")
	case err == nil:
		if _, why := reserve.All(turns.Limits()...); why != nil {
			err = fmt.Errorf("%w turns: %w", ErrInvalid, why)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return &Scheduler{client: client, turns: turns, config: config.withDefaults()}, nil
}

// A Forecast says when a task is expected to run. A pause makes it later, and deleted tasks may
// make it earlier.
type Forecast struct {
	// Info is asynq's information about the task. Its NextProcessAt is when the task comes up,
	// shortly before its turn. Nil for a task that was not enqueued.
	Info *asynq.TaskInfo

	// At is the moment of the turn, on the local clock. For a task that is not booked, it is the
	// moment at which the task comes up. Tasks whose Need says Skip are not booked, nor are some
	// tasks for a later moment (see the package documentation, ProcessAt).
	At time.Time

	// Err is why the task was not enqueued.
	Err error
}

// Enqueue books a turn for the task, and enqueues the task to come up shortly before it. See the
// package documentation for what options mean.
//
// After an error the task is not enqueued. Errors are [ErrInvalid]; those of [reserve.Joint.Book],
// such as [reserve.ErrWouldMissDeadline] and [reserve.ErrUnavailable]; and asynq's, such as
// asynq.ErrDuplicateTask and asynq.ErrTaskIDConflict.
func (s *Scheduler) Enqueue(ctx context.Context, task *asynq.Task, options ...asynq.Option) (Forecast, error) {
	items := []Item{{Task: task, Options: options}}
	forecasts := make([]Forecast, 1)
	s.enqueue(ctx, items, forecasts)
	if err := forecasts[0].Err; err != nil {
		forecasts[0].Err = fmt.Errorf("scheduler: %w", named(task, err))
	}
	return forecasts[0], forecasts[0].Err
}

// An Item is one task for [Scheduler.EnqueueAll], with its own options.
type Item struct {
	Task    *asynq.Task
	Options []asynq.Option
}

// window is how many tasks are booked but not yet enqueued, at most: if the process dies, no task
// uses these bookings.
const window = 1024

// EnqueueAll is Enqueue for many tasks, in few round trips. Tasks of the same limits are booked in
// the order of the items; tasks for a later moment come last. If a task fails, the others are still
// enqueued: there is a Forecast for each item, and its Err says why. The error says how many
// failed, and wraps the first error.
func (s *Scheduler) EnqueueAll(ctx context.Context, items []Item) ([]Forecast, error) {
	forecasts := make([]Forecast, len(items))
	for from := 0; from < len(items); from += window {
		to := min(from+window, len(items))
		s.enqueue(ctx, items[from:to], forecasts[from:to])
	}
	failed, first := 0, error(nil)
	for i := range forecasts {
		if forecasts[i].Err == nil {
			continue
		}
		err := named(items[i].Task, forecasts[i].Err)
		if failed++; first == nil {
			first = fmt.Errorf("item %d, %w", i, err)
		}
		forecasts[i].Err = fmt.Errorf("scheduler: %w", err)
	}
	if first != nil {
		first = fmt.Errorf("scheduler: %d of %d tasks were not enqueued; the first: %w", failed, len(items), first)
	}
	return forecasts, first
}

func named(task *asynq.Task, err error) error {
	if task == nil {
		return err
	}
	return fmt.Errorf("task of type %q: %w", task.Type(), err)
}
