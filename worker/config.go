package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
)

// Config says how tasks wait. The zero value suits most programs.
type Config struct {
	// Need returns what a task needs. It may block, to look something up; the context is the
	// task's. The task fails if Need returns an error, or a [Need] that is not valid. Default
	// [FromHeaders].
	Need func(context.Context, *asynq.Task) (Need, error)

	// Turn is the earlier name of Need, and counts if Need is nil.
	//
	// Deprecated: use Need.
	Turn func(context.Context, *asynq.Task) (Need, error)

	// Used returns how many permits a task has used of each of its limits, in their order, after
	// its handler has returned: see [reserve.Reservation.Settle]. It is called after each run,
	// whether or not the handler failed. Nil means that the costs were right; that is the default.
	// At least one limit of the Worker must have [reserve.Config.Settles].
	Used func(ctx context.Context, task *asynq.Task, err error) []int

	// WaitingRoom is how many tasks may wait in this process at once, in addition to running
	// handlers. Half of it is for tasks that keep their places while asynq delivers a backlog.
	// Tasks in their last attempt stay in it until their turns, and Skip tasks until a handler is
	// free. When it is full, the server takes no more tasks. So run many Skip tasks, or many tasks
	// in their last attempt, on a separate server. Default: 1,000, or as many as a fast limit
	// needs, up to 10,000.
	WaitingRoom int

	// Lead is how long before its turn a rescheduled task comes back. By default it is long enough
	// for the polling intervals of asynq and for [reserve.Lead]. Apply refuses a shorter Lead.
	Lead time.Duration

	// Inspector is for tasks with an asynq.Deadline; it must use the same Redis as the server.
	// asynq does not tell a handler whether a Timeout or a Deadline bounds its time. A Timeout
	// restarts when the task comes back. With the Inspector, a task whose turn would come after its
	// Deadline fails at once; without it, the task fails when it comes back.
	Inspector *asynq.Inspector

	// Logger gets what an operator should know. Default slog.Default().
	Logger *slog.Logger
}

const (
	leastRoom = 1_000
	mostRoom  = 10_000
)

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = reserve.ErrInvalid

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("worker: %w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

func (c Config) withDefaults() Config {
	if c.Need == nil {
		c.Need = c.Turn
	}
	if c.Need == nil {
		c.Need = FromHeaders
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	if c.WaitingRoom < 0 {
		return invalid("Config.WaitingRoom", "must be at least 1, or 0 for the default, got %d", c.WaitingRoom)
	}
	if c.Lead < 0 {
		return invalid("Config.Lead", "must be positive, or 0 for the default, got %v", c.Lead)
	}
	return nil
}
