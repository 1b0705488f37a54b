package worker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// tidyUp bounds requests to Redis for a task after its own time, because its context may have
// ended.
const tidyUp = 5 * time.Second

// cancel ends the wait of a task that will not run.
func (t *task) cancel(ctx context.Context, r *reserve.Reservation) {
	if r == nil {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer done()
	if err := r.Cancel(ctx); err != nil {
		t.complain("could not cancel the booking of a task; forecasts of other calls still count it", err)
	}
}

// book keeps the place of a task that comes back, on any worker.
func (t *task) book(ctx context.Context, r *reserve.Reservation) {
	if r == nil {
		return
	}
	if err := r.PutBack(context.WithoutCancel(ctx)); err != nil {
		t.complain("could not save the place of a task; it may go to the end of the queue", err)
	}
}

// hintEvery is how often the log repeats what an operator should know.
const hintEvery = 10 * time.Second

func (t *task) complain(what string, err error) {
	t.worker.hint.Do(func() {
		t.worker.config.Logger.Warn("fleetpace: "+what, "limit", t.joint.String(), "id", t.id, "error", err)
	})
}
