package worker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// tidyUp bounds what is asked of Redis for a task when its own time is up: its
// context may have ended. Where that fails, a number is left in the line that
// nobody comes for; whoever is awake uses its turn.
const tidyUp = 5 * time.Second

// giveBack returns the number of the task to the line.
func (t *task) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	if _, err := t.limiter.Cancel(ctx, t.id, t.cost); err != nil {
		t.complain("the number of a task could not be given back", err)
	}
}

// keepPlace lets a turn that may be fixed wait again.
func (t *task) keepPlace(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	if _, err := t.limiter.Leave(ctx, t.id, t.cost); err != nil {
		t.complain("a task may lose its place in the line", err)
	}
}

// forget frees the ID of a turn that was used: for a task that comes again
// without a retry being counted, or another one of the same task ID.
func (t *task) forget(ctx context.Context, r *reserve.Reservation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer cancel()
	if err := r.Forget(ctx); err != nil {
		t.complain("the ID of a turn could not be freed; if the task comes again at once, it may be let through too early", err)
	}
}
