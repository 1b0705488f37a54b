package worker

import "time"

// hintEvery is how often the log repeats what an operator should know.
const hintEvery = 10 * time.Second

func (t *task) complain(what string, err error) {
	t.worker.hint.Do(func() {
		t.worker.config.Logger.Warn("fleetpace: "+what, "limit", t.limiter.String(), "id", t.id, "error", err)
	})
}

// lapse notes a turn that no handler was free for.
func (w *Worker) lapse() {
	w.lapsed.Add(1)
	w.hint.Do(func() {
		w.config.Logger.Warn("fleetpace: turns pass while no handler is free: set a higher asynq.Config.Concurrency,"+
			" run more processes, or lower the limit", "handlers", cap(w.slots), "turns so far", w.lapsed.Load())
	})
}
