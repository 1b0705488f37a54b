package reserve

import (
	"context"
)

// Settle replaces the estimated cost of a call by its real cost at each limit, in the order of
// [All], after the call was made. A cost of 0 means that no permit was used. A cost below 0 means
// that it is not known: the estimate stays. If the call used less than its estimate, waiting calls
// come sooner; if it used more, they come later. Calls that were already made are not affected.
//
// How much comes back depends on the kind of limit:
//
//   - paced: at most what a strict provider would still have in its bucket. Nothing comes back if
//     the bucket was full since, if another limit was set, or if the level of the bucket fell at
//     more than eight calls since. So set a burst of several times the largest cost, and settle as
//     soon as the call is over.
//   - quota: all of it, in the window of the call.
//   - rolling: all of it, unless 64 calls or more got their turns since.
//   - warming up: nothing.
//
// It returns an [ErrInvalid] if none of the limits has [Config.Settles], if the turn has not come
// yet, or if the call was settled before. After any other error Settle may be repeated, and counts
// once. It changes nothing for a call that was let through during an outage. Settle works after
// [Limiter.Close].
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
	err := r.joint.process().Settle(ctx, r.need, r.turn, truth)
	if err != nil {
		r.mu.Lock()
		r.settled = false
		r.mu.Unlock()
	}
	return r.joint.shared().why(ctx, err)
}

// settles records that the real cost is being sent. A turn that was granted and has come counts as
// used, because its holder may have waited for it without Wait.
func (r *Reservation) settles() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stage == open && r.leave == nil {
		if turn, ok := r.held.Take(); ok {
			r.stage, r.turn, r.slots = used, turn, r.held.Slots()
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
