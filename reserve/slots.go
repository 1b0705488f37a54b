package reserve

import (
	"context"
	"slices"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Acquire blocks until the call has its turn, and returns the Reservation that holds its n slots.
// Release it when the call is done. It is [Joint.Acquire] for this limit alone.
func (l *Limiter) Acquire(ctx context.Context, n int) (*Reservation, error) {
	return l.joint().Acquire(ctx, n)
}

// Acquire blocks until the call has its turn, as [Joint.Wait] does, and returns the Reservation
// that holds its slots:
//
//	held, err := both.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer held.Release()
//
// Nobody knows when a slot will be free. So a call that waits for a slot fails when its deadline
// comes, and not before. Acquire also works with limits that have no slots; then there is nothing
// to release. Errors are those of [Limiter.WaitN].
func (j *Joint) Acquire(ctx context.Context, costs ...int) (*Reservation, error) {
	r, err := j.acquire(ctx, costs)
	return r, failed("acquire", j, err)
}

func (j *Joint) acquire(ctx context.Context, costs []int) (*Reservation, error) {
	need, err := j.need(ctx, costs)
	if err != nil {
		return nil, err
	}
	if need.Stays { // no stop ends it, and its deadline may come before it may probe
		if probes := j.probe(ctx, need); probes != nil {
			return probes, nil
		}
	}
	deadline, _ := ctx.Deadline()
	r, err := j.hold(ctx, need, deadline)
	if err != nil {
		return j.probed(ctx, need, err)
	}
	var probes *Reservation
	if need.Stays {
		probes, err = r.waitStaying(ctx)
	} else {
		err = r.wait(ctx, 0)
	}
	if err != nil || probes != nil {
		_ = r.cancel(context.WithoutCancel(ctx))
	}
	switch {
	case err != nil:
		return j.probed(ctx, need, err)
	case probes != nil:
		return probes, nil
	}
	return r, nil
}

// Release frees the slots that the call holds, once it is done. It does not wait for Redis, and may
// be repeated. Before the turn was used, or without slots, it does nothing.
func (r *Reservation) Release() { r.process().Release(r.call) }

// Lost returns a channel that is closed when other calls may have the slots, although the call has
// not released them. It happens if all slots are in use without the call, after its process counted as dead or Redis lost its data. The call continues unless you
// end it. The channel is nil while the call holds no slots: before its turn, and after Release.
func (r *Reservation) Lost() <-chan struct{} { return r.view().Lost }

// Free takes slots away from a call of any process of the fleet, so that other calls get them. It
// is for an operator who knows that the call hangs, or is over. The call itself continues. Its
// [Reservation.Lost] is closed about a second later. It does not get the slots back, also after an
// outage, unless Redis loses its data before the process learns of it. The holder is one of
// [State.Holders]. Free reports false if the holder no longer holds slots. Errors are those of
// [Limiter.State].
func (l *Limiter) Free(ctx context.Context, h Holder) (bool, error) {
	if err := l.check(ctx, 1); err != nil {
		return false, failed("free", l, err)
	}
	freed, err := l.core.process.Free(ctx, l.limit, wire.Holder{Process: h.Process, Number: h.Number, Doing: h.Doing, Cost: int64(h.Slots)})
	return freed, failed("free", l, l.core.why(ctx, err))
}

// needsNoRelease rejects limits with slots: Wait and Allow could never release them.
func (l *Limiter) needsNoRelease() error {
	if l.core.cfg.Limit.kind == KindSlots {
		return invalid("Limit", "%q has slots (%v), which are to be released: use Acquire in place of Wait and Allow", l, l.core.cfg.Limit)
	}
	return nil
}

func (j *Joint) needsNoRelease() error {
	if i := slices.IndexFunc(j.limits, func(l *Limiter) bool { return l.needsNoRelease() != nil }); i >= 0 {
		return j.limits[i].needsNoRelease()
	}
	return nil
}
