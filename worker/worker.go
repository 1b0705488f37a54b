package worker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

// Worker is middleware that gives each task its turn. Make one per asynq server
// with [New], and call [Worker.Apply] on the server's configuration. It is safe
// for concurrent use.
type Worker struct {
	turns  reserve.Turns
	config Config

	applied  atomic.Bool
	lead     time.Duration
	handlers chan struct{} // one token for each running handler
	places   int           // the size of the waiting room
	rush     rush
	draining context.Context
	drain    context.CancelFunc

	asleep, putBack, lapsed atomic.Int64
	hint, trouble           rate.Sometimes
}

// New makes a Worker whose tasks wait for turns of a [reserve.Limiter] or a [reserve.Joint], unless
// their Need names other limits. The limits may use another Redis than asynq. The error is an
// [ErrInvalid] that names the field.
func New(turns reserve.Turns, config Config) (*Worker, error) {
	if turns == nil {
		return nil, invalid("turns", "must not be nil")
	}
	if _, err := reserve.All(turns.Limits()...); err != nil {
		return nil, fmt.Errorf("worker: %w turns: %w", ErrInvalid, err)
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.Used != nil && !slices.ContainsFunc(turns.Limits(), (*reserve.Limiter).Settles) {
		return nil, invalid("Config.Used", "%q cannot be settled: set reserve.Config.Settles of its limits", turns)
	}
	w := &Worker{turns: turns, config: config.withDefaults()}
	w.hint.First, w.hint.Interval = 1, hintEvery
	w.trouble.First, w.trouble.Interval = 1, hintEvery
	w.draining, w.drain = context.WithCancel(context.Background())
	return w, nil
}

// Middleware is for asynq's ServeMux.Use, if you do not run the server with [Worker.Run]. The
// handler that it returns runs next once the task has its turn and a handler is free. The task's
// context then carries the moment of the turn, see [Due].
func (w *Worker) Middleware(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if ctx.Value(passed{w}) != nil {
			return next.ProcessTask(ctx, task)
		}
		return w.process(ctx, task, next)
	})
}

// passed is the context key that marks a task with a turn.
type passed struct{ *Worker }

type dueKey struct{}

// Due returns the moment, on the local clock, at which the turn of the running task came. It
// reports false for a task without a turn. The time since then is how late the task runs.
func Due(ctx context.Context) (time.Time, bool) {
	due, ok := ctx.Value(dueKey{}).(time.Time)
	return due, ok
}

// Lead is how long before its turn a rescheduled task comes back; 0 before Apply. Use it for a
// scheduler.Config.
func (w *Worker) Lead() time.Duration { return w.lead }

// Patience is the longest time that a task usually sleeps in its worker before its turn. It may
// sleep longer if it cannot be rescheduled, while asynq delivers a backlog, or if costs are
// settled.
func (w *Worker) Patience() time.Duration { return turn.Patience(w.lead) }

// Stats are figures of one Worker, for dashboards.
type Stats struct {
	Asleep  int64 // tasks waiting in this process now
	Working int   // running handlers
	PutBack int64 // how often a task was rescheduled so far
	Lapsed  int64 // turns that expired because no handler was free, so far
}

// Stats returns the current figures.
func (w *Worker) Stats() Stats {
	return Stats{Asleep: w.asleep.Load(), Working: len(w.handlers), PutBack: w.putBack.Load(), Lapsed: w.lapsed.Load()}
}
