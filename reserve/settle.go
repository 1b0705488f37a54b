package reserve

import (
	"context"

	"github.com/fleetpace/fleetpace/internal/engine"
)

// Settle replaces the estimated cost of a call by its real cost at each limit, in the order of
// [All], after the call was made. A cost of 0 means that no permit was used. A cost below 0 means
// that it is not known: the estimate stays. If the call used less than its estimate, waiting calls
// come sooner; if it used more, they come later. Calls that were already made are not affected.
//
// How much comes back depends on the kind of limit:
//
//   - paced: at most what a strict provider would still have in its bucket. Nothing comes back if
//     the bucket was full since, or if another limit was set. So set a burst of several times the
//     largest cost, and settle as soon as the call is over.
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
	case !r.call.Need.Settles:
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
			truth[i] = r.call.Need.Cost
		default:
			truth[i] = r.call.Need.More[i-1].Cost
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	turn, err := r.settles()
	if err != nil || turn.Process == "" { // Redis knows nothing of it
		return err
	}
	err = r.process().Settle(ctx, &r.call.Need, turn, truth)
	if err != nil {
		r.mu.Lock()
		r.settled = false
		r.mu.Unlock()
	}
	return r.joint.shared().why(ctx, err)
}

// settles records that the real cost of the turn that was used is being sent. A turn that was granted and has
// come counts as used, because its holder may have waited for it without Wait.
func (r *Reservation) settles() (*engine.Turn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var turn *engine.Turn
	if !r.waiting {
		turn = r.process().Take(r.call)
	}
	switch {
	case turn == nil:
		return nil, r.invalid("has not had its turn")
	case r.settled:
		return nil, r.invalid("is settled already")
	}
	r.settled = true
	return turn, nil
}
