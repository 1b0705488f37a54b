package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
)

type settlesKey struct{}

// settlement is the cost that the handler of a task reports.
type settlement struct {
	limits []*reserve.Limiter

	mu   sync.Mutex
	used []int     // nil: the costs were right
	left []float64 // nil: nobody says what is left
}

// Settle reports, from within a handler, what its task has used of each of its limits, in their
// order. A cost below 0 means that it is unknown: the estimate stays. The worker settles it after
// the handler has returned, whatever its error, instead of the result of [Config.Used]. The last
// call counts. See [reserve.Reservation.Settle] for what comes back. It is safe for concurrent use.
//
// The error is an [ErrInvalid], and a mistake of the program. The context may not belong to a task
// with a turn, the costs may not fit its limits, or none of the limits has
// [reserve.Config.Settles]. Nothing is settled then.
func Settle(ctx context.Context, used ...int) error {
	s, ok := ctx.Value(settlesKey{}).(*settlement)
	switch {
	case !ok:
		return invalid("ctx", "must be the context of a handler whose task has its turn")
	case !slices.ContainsFunc(s.limits, (*reserve.Limiter).Settles):
		return invalid("used", "%v cannot be settled: set reserve.Config.Settles of a limit", s.limits)
	case len(used) != len(s.limits):
		return invalid("used", "must be one number for each of %v, got %v", s.limits, used)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = slices.Clone(used)
	return nil
}

// Told reports, from within a handler, how many permits the API says are left of each limit of the
// task, in their order. A number below 0 means that it is unknown. The worker takes them in after
// the handler has returned and its costs are settled. The last call counts. See [reserve.Limiter.Told]
// for what follows, and for what to take off. It is safe for concurrent use.
//
// The error is an [ErrInvalid], and a mistake of the program: the context may not belong to a task
// with a turn, or the numbers may not fit its limits. Nothing is taken in then.
func Told(ctx context.Context, remaining ...float64) error {
	s, ok := ctx.Value(settlesKey{}).(*settlement)
	switch {
	case !ok:
		return invalid("ctx", "must be the context of a handler whose task has its turn")
	case len(remaining) != len(s.limits):
		return invalid("remaining", "must be one number for each of %v, got %v", s.limits, remaining)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = slices.Clone(remaining)
	return nil
}

// told returns the costs that the handler reported, or otherwise the result of Config.Used.
func (s *settlement) told(ctx context.Context, config *Config, task *asynq.Task, failed error) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil && config.Used != nil {
		return config.Used(ctx, task, failed)
	}
	return s.used
}

// settle settles the costs of a task that has run, and takes in what is left of its limits then.
func (t *task) settle(ctx context.Context, r *reserve.Reservation, used []int, s *settlement) {
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), tidyUp)
	defer done()
	if used != nil {
		if err := r.Settle(ctx, used...); err != nil {
			t.complain("what a task has used could not be settled", err)
		}
	}
	for i, n := range left {
		if err := s.limits[i].Told(ctx, n); err != nil {
			t.complain("what is left of a limit could not be taken in", err)
		}
	}
}
