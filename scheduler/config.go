package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Need is what a task needs before it may run: it is a [worker.Need].
type Need = worker.Need

// Config says how tasks are scheduled. The zero value suits most programs. It must agree with the
// worker.Config of the workers.
type Config struct {
	// Need says what a task needs, as in the workers. An error refuses the task. Tasks of the same
	// Limits and Key are booked together, so name a tenant by Need.Key. Default
	// [worker.FromHeaders].
	Need func(context.Context, *asynq.Task) (Need, error)

	// Turn is the earlier name of Need, and counts if Need is nil.
	//
	// Deprecated: use Need.
	Turn func(context.Context, *asynq.Task) (Need, error)

	// Lead is how long before its turn a task is due in asynq: the [worker.Worker.Lead] of the
	// workers. If it is too short, tasks are late; if it is too long, they are rescheduled.
	// Default: the Lead of a worker whose server has the polling intervals of
	// [worker.Worker.Apply].
	Lead time.Duration
}

// ErrInvalid says that a setting, a task or an option is wrong; the text names it and its value.
// Nothing was booked.
var ErrInvalid = reserve.ErrInvalid

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	if c.Need == nil {
		c.Need = c.Turn
	}
	if c.Need == nil {
		c.Need = worker.FromHeaders
	}
	if c.Lead == 0 {
		c.Lead = turn.Lead(turn.PollInterval, turn.PollInterval, reserve.Lead)
	}
	return c
}

func (c Config) validate() error {
	if c.Lead < 0 {
		return invalid("Config.Lead", "must be positive, or 0 for the default, got %v", c.Lead)
	}
	return nil
}
