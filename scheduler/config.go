package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

// Turn is what a task needs before it may run: a limiter, a key in it, a cost.
// It is the same type as worker.Turn.
type Turn = turn.Turn

// FromHeaders is the default of Config.Turn: it reads key, cost and skip from the
// task's headers, where [Turn.Headers] puts them. A task without them costs one
// permit of the Scheduler's limiter.
func FromHeaders(ctx context.Context, task *asynq.Task) (Turn, error) {
	return turn.FromHeaders(ctx, task)
}

// Config says how tasks are scheduled. The zero value is good for most. It has to
// agree with the worker.Config of the workers.
type Config struct {
	// Turn says what a task needs; the same as in the workers. An error refuses
	// the task. Tasks of one Limiter and Key take their numbers together, so name
	// a tenant by Turn.Key. Default [FromHeaders].
	Turn func(context.Context, *asynq.Task) (Turn, error)

	// Lead is how long before its turn a task is due in asynq: the Lead of the
	// workers. One that is too short makes tasks miss their turns, one that is
	// too long makes them come and go. Default: that of a worker on the same
	// limiter whose server has the polling intervals of worker.Apply.
	Lead time.Duration
}

// ErrInvalid says that a setting, a task or an option is wrong; the text names it
// and its value. Nothing was taken.
var ErrInvalid = errors.New("invalid")

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults(limiter *reserve.Limiter) Config {
	if c.Turn == nil {
		c.Turn = turn.FromHeaders
	}
	if c.Lead == 0 {
		c.Lead = turn.Lead(turn.PollInterval, turn.PollInterval, limiter.Lead())
	}
	return c
}

func (c Config) validate() error {
	if c.Lead < 0 {
		return invalid("Config.Lead", "must be positive, or 0 for the default, got %v", c.Lead)
	}
	return nil
}
