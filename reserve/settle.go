package reserve

import (
	"context"
)

// Settle tells what the call used of each limit in truth, once it was made: in the order of
// [All]; a cost below 0 is not known, and stays. What it used less lets those behind it
// come earlier; what it used more, later, and for calls that were made already it is too
// late. What comes back of a paced limit is at most what a strict provider would still have
// in its bucket: nothing where that was full since, where another limit was set, or where it
// went down by more than eight calls since; and nothing of a rolling limit after 64 later
// calls. So give a limit whose costs are settled a burst of some times the largest cost, and
// tell it when the call is over.
//
// Config.Settles must be set for a limit, or, of a [Joint], for one of them: else it is an
// [ErrInvalid], as it is before the turn has come, and a second time. After another error
// it may be repeated: it counts once. A call that was let through while Redis was away
// settles nothing. It works after [Limiter.Close].
func (r *Reservation) Settle(ctx context.Context, used ...int) error {
	return failed("settle", r.joint, r.settle(ctx, used))
}

func (r *Reservation) settle(ctx context.Context, costs []int) error {
	limits := r.joint.limits
	switch {
	case ctx == nil:
		return invalid("ctx", "must not be nil")
	case !r.need.Settles:
		return invalid("Config.Settles", "is not set for %q, so costs are no estimates", r.joint)
	case len(costs) != len(limits):
		return invalid("used", "must be one for each of the %d limits, got %d", len(limits), len(costs))
	}
	truth := make([]int64, len(costs))
	for i, cost := range costs {
		switch {
		case cost > maxBurst:
			return invalid("used", "must be at most %d, got %d", maxBurst, cost)
		case cost >= 0:
			truth[i] = int64(cost)
		case i == 0:
			truth[i] = r.need.Cost
		default:
			truth[i] = r.need.More[i-1].Cost
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.settles(); err != nil {
		return err
	}
	if r.turn.Process == "" { // Redis knows nothing of it
		return nil
	}
	err := r.joint.asker().Settle(ctx, r.need, r.turn, truth)
	if err != nil {
		r.mu.Lock()
		r.settled = false
		r.mu.Unlock()
	}
	return r.joint.shared().why(ctx, err)
}

// settles notes that what the turn used is being told. A turn that was given and has come
// counts as used: its holder may have slept until then by itself.
func (r *Reservation) settles() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stage == open && r.leave == nil {
		if turn, ok := r.held.Take(); ok {
			r.stage, r.turn, r.slots = used, turn, r.joint.asker().Keep(r.need, turn)
		}
	}
	switch {
	case r.stage != used:
		return r.invalid("has not had its turn")
	case r.settled:
		return r.invalid("is settled already")
	}
	r.settled = true
	return nil
}
