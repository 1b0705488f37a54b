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
// Nobody knows when a slot will be free. So a call that waits for a slot is not refused at once
// because of its deadline: the wait ends when the deadline comes. Acquire also works with limits
// that have no slots; then there is nothing to release. Errors are those of [Limiter.WaitN].
func (j *Joint) Acquire(ctx context.Context, costs ...int) (*Reservation, error) {
	r, err := j.acquire(ctx, costs)
	return r, failed("acquire", j, err)
}

func (j *Joint) acquire(ctx context.Context, costs []int) (*Reservation, error) {
	need, err := j.need(ctx, costs)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	r, err := j.hold(ctx, need, deadline)
	if err != nil {
		return nil, err
	}
	if err = r.wait(ctx, 0); err != nil {
		_ = r.cancel(context.WithoutCancel(ctx))
		return nil, err
	}
	return r, nil
}

// Release gives back the slots that the call holds, once it is done. It does not wait for Redis,
// and may be repeated. Before the turn was used, or where there are no slots, it does nothing.
func (r *Reservation) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release()
}

// release lets the slots go. The Reservation must be locked.
func (r *Reservation) release() {
	if r.slots != nil {
		r.slots.Release()
		r.slots = nil
	}
}

// Lost returns a channel that is closed when others may have the slots of the call, though it has
// not released them. That happens if its process was silent for so long that it counted as dead,
// or if Redis lost its data, and the limit is full without the call. The call goes on, unless you
// end it. The channel is nil while the call holds no slots: before its turn, and after Release.
func (r *Reservation) Lost() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots == nil {
		return nil
	}
	return r.slots.Lost()
}

// Free takes slots away from a call of any process of the fleet, so that others can have them. It
// is for an operator who knows that the call hangs, or is over. The call itself goes on. Its
// [Reservation.Lost] is closed about a second later, and it does not get the slots back, after an
// outage of Redis either, unless Redis loses its data before the process hears of it. The holder is one of [State.Holders]. Free reports false if it holds no
// slots any more. Errors are those of [Limiter.State].
func (l *Limiter) Free(ctx context.Context, h Holder) (bool, error) {
	if err := l.check(ctx, 1); err != nil {
		return false, failed("free", l, err)
	}
	freed, err := l.core.asker.Free(ctx, l.limit, wire.Holder{Process: h.Process, Number: h.Number, Doing: h.Doing, Cost: int64(h.Slots)})
	return freed, failed("free", l, l.core.why(ctx, err))
}

// needsNoRelease says that a call of slots can not be made by Wait and Allow.
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
