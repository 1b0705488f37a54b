package worker

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
)

// Apply changes the configuration of the server that runs the Worker's tasks. Call it once, before
// asynq.NewServer:
//
//   - Concurrency becomes the waiting room plus the handlers that may run at once. Their number is
//     the Concurrency that you set (asynq's default: one per CPU).
//   - TaskCheckInterval and DelayedTaskCheckInterval become 100 ms if they are zero. With asynq's
//     own 1 s and 5 s a task would come back up to 7.1 s before its turn instead of 0.85 s, and
//     wait in its worker.
//   - IsFailure, RetryDelayFunc and ErrorHandler no longer treat a task that waits for its turn as
//     a failed task. Your own functions are called for all other errors.
//
// The error is an [ErrInvalid] that names a setting that cannot work. Apply logs a setting that
// works but is wasteful.
func (w *Worker) Apply(config *asynq.Config) error {
	if config == nil {
		return invalid("asynq.Config", "must not be nil")
	}
	if config.DelayedTaskCheckInterval < 0 {
		return invalid("asynq.Config.DelayedTaskCheckInterval", "must be positive, or 0 for %v, got %v",
			turn.PollInterval, config.DelayedTaskCheckInterval)
	}
	if config.TaskCheckInterval <= 0 {
		config.TaskCheckInterval = turn.PollInterval
	}
	if config.DelayedTaskCheckInterval == 0 {
		config.DelayedTaskCheckInterval = turn.PollInterval
	}
	lead, err := w.chooseLead(config)
	if err != nil {
		return err
	}
	handlers := config.Concurrency
	if handlers < 1 {
		handlers = runtime.NumCPU()
	}
	if !w.applied.CompareAndSwap(false, true) {
		return invalid("Worker", "was applied to a server before: make one Worker for each")
	}
	w.lead = lead
	w.handlers = make(chan struct{}, handlers)
	w.places = w.room()
	w.rush.check = config.TaskCheckInterval
	config.Concurrency = handlers + w.places
	w.wrap(config)
	return nil
}

func (w *Worker) chooseLead(config *asynq.Config) (time.Duration, error) {
	least := turn.Lead(config.DelayedTaskCheckInterval, config.TaskCheckInterval, reserve.Lead)
	switch {
	case w.config.Lead == 0:
		return least, nil
	case w.config.Lead < least:
		return 0, invalid("Config.Lead", "%v is too short: with a DelayedTaskCheckInterval of %v and a"+
			" TaskCheckInterval of %v a task may be back in its worker only %v after it was due, and its turn would"+
			" have passed. Use a Lead of at least %v or leave it 0, or shorten the intervals",
			w.config.Lead, config.DelayedTaskCheckInterval, config.TaskCheckInterval,
			config.DelayedTaskCheckInterval+config.TaskCheckInterval*3/2, least)
	}
	return w.config.Lead, nil
}

// room is the size of the waiting room. If only one process runs, all turns of the fleet that are
// nearer than the patience wait in it.
func (w *Worker) room() int {
	var rates []float64
	for _, l := range w.turns.Limits() {
		rates = append(rates, l.Limit().Rate())
	}
	needed := func(rate float64) float64 { return math.Ceil(rate * turn.Patience(w.lead).Seconds()) }
	if w.config.WaitingRoom == 0 {
		return int(min(max(2*needed(slices.Max(rates)), leastRoom), mostRoom))
	}
	if room, least := w.config.WaitingRoom, needed(slices.Min(rates)); float64(room) < least {
		w.config.Logger.Warn("fleetpace: the waiting room is too small for one process to use the whole limit:"+
			" raise Config.WaitingRoom, shorten the polling intervals of asynq, or run more processes",
			"limit", w.turns.String(), "room", room, "waiting_tasks", int(least),
			"processes_needed", int(math.Ceil(least/float64(room))))
	}
	return w.config.WaitingRoom
}

// wrap keeps asynq from treating a waiting task as a failed task.
func (w *Worker) wrap(config *asynq.Config) {
	isFailure := config.IsFailure
	config.IsFailure = func(err error) bool {
		if IsWaiting(err) {
			return false
		}
		if isFailure == nil {
			return err != nil
		}
		return isFailure(err)
	}
	delay := config.RetryDelayFunc
	if delay == nil {
		delay = asynq.DefaultRetryDelayFunc
	}
	config.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		var waiting *waitingError
		if errors.As(err, &waiting) {
			return max(0, time.Until(waiting.back))
		}
		return delay(n, err, task)
	}
	if handler := config.ErrorHandler; handler != nil {
		config.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			if !IsWaiting(err) {
				handler.HandleError(ctx, task, err)
			}
		})
	}
}
