package worker

import (
	"errors"
	"time"

	"github.com/fleetpace/fleetpace/internal/turn"
)

// hintEvery is how often the log repeats what an operator should know.
const hintEvery = 10 * time.Second

func (t *task) complain(what string, err error) {
	t.worker.hint.Do(func() {
		t.worker.config.Logger.Warn("fleetpace: "+what, "limit", t.limiter.String(), "id", t.id, "error", err)
	})
}

// fits is an error if the limiter that was chosen for the task can not serve it. That is
// a fault of the program and not of the task, which stays until the program is mended.
func (t *task) fits() error {
	why := turn.Unfit(t.limiter)
	if why == "" {
		return nil
	}
	t.worker.unfit.Do(func() {
		t.worker.config.Logger.Error("fleetpace: tasks can not run, and go back until they can: Turn.Limiter of a task does not fit",
			"limit", t.limiter.String(), "type", t.name, "id", t.id, "error", why)
	})
	return errors.New("Turn.Limiter: " + why)
}

// lapse notes a turn that no handler was free for.
func (w *Worker) lapse() {
	w.lapsed.Add(1)
	w.hint.Do(func() {
		w.config.Logger.Warn("fleetpace: turns pass while no handler is free: set a higher asynq.Config.Concurrency,"+
			" run more processes, or lower the limit", "handlers", cap(w.slots), "turns so far", w.lapsed.Load())
	})
}
