package reserve

import (
	"context"
	"sync"
	"time"
)

// A JointReservation is a call of a [Joint] that is to be made, or was made and is to be
// settled. It is safe for concurrent use.
type JointReservation struct {
	mu    sync.Mutex // one Wait, Cancel or Settle at a time
	call  *guest
	state jointState
}

type jointState int

const (
	jointFresh jointState = iota
	jointUsed
	jointSettled
	jointCancelled
)

// Wait blocks until the turn has come: return nil means call now, and uses the reservation
// up. If the context ends first, the call keeps its places: Wait again, or Cancel. Unlike
// [Joint.Wait] it does not mind when the deadline is. Errors are those of
// [Reservation.Wait].
func (r *JointReservation) Wait(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.call.joint.fail("wait", r.wait(ctx))
}

func (r *JointReservation) wait(ctx context.Context) error {
	switch r.state {
	case jointCancelled:
		return ErrCancelled
	case jointUsed, jointSettled:
		return invalid("reservation", "%q is used up", r.call.id)
	}
	lines, leave, err := r.call.joint.enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := r.call.wait(ctx, lines); err != nil {
		return err
	}
	r.state = jointUsed
	return nil
}

// Due is the moment of the turn on the local clock, as far as it is known.
func (r *JointReservation) Due() time.Time { return r.call.view().due }

// HeldBy is the limit that the call waits for longest, as far as it is known; nil where
// none holds it back.
func (r *JointReservation) HeldBy() *Limiter { return r.call.view().holder }

// Cancel gives back what the call has in all limits. Cancelling again, or after the turn
// was used, does nothing; after an error it may be repeated. It waits for a Wait to end, and
// works after [Limiter.Close], too, as Settle does.
func (r *JointReservation) Cancel(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == jointUsed || r.state == jointSettled {
		return nil
	}
	r.state = jointCancelled
	return r.call.joint.fail("cancel", r.call.leave(ctx))
}

// Settle tells what the call used of each limit in truth, once it was made: in the order of
// [All]; a cost below 0 is not known, and stays. What it used less lets those behind it
// come earlier; what it used more, later, and for calls that were made already it is too
// late. What comes back of a paced limit is as much as a strict provider would still have
// in its bucket: nothing, where that was full since. So give a limit whose costs are
// settled a burst of some times the largest cost. Of calls that had their turns before the
// first Reserve nothing comes back. Tell it within half an hour. Single calls of a limit
// whose costs are settled make a trip to Redis each.
//
// Settle once: a second time is an [ErrInvalid]. Where the reply is lost
// ([ErrOutcomeUnknown]) it may have been done; it is not to be repeated then. A reservation
// that was let through while Redis was away settles nothing.
func (r *JointReservation) Settle(ctx context.Context, costs ...int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.call.joint.fail("settle", r.settle(ctx, costs))
}

func (r *JointReservation) settle(ctx context.Context, costs []int) error {
	switch {
	case r.state != jointUsed:
		return invalid("reservation", "%q was not used, or is settled already", r.call.id)
	case len(costs) != len(r.call.costs):
		return invalid("costs", "must be one for each of the %d limits, got %d", len(r.call.costs), len(costs))
	}
	for _, cost := range costs {
		if cost > maxBurst {
			return invalid("costs", "must be at most %d, got %d", maxBurst, cost)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.state = jointSettled
	return r.call.settle(ctx, costs)
}
