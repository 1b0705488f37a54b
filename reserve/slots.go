package reserve

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
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

// A Lease holds the slots of a call in Redis, and not in a process. Any process renews and ends it,
// also when the process that made it is gone. [Reservation.Lend] makes one.
type Lease struct {
	Name  string // unique to one call, and secret: anybody who has it can end the lease
	Doing string // what the call is for, as [Holder] has it
}

// Lend lets a lease hold the slots of a call that has its turn. The call then holds none: Release
// does nothing, and Lost is nil. Unless [Joint.Renew] renews the lease, it ends after d. The Name must be
// random; it is chosen here if it is empty. An empty Doing is the ID or the flow of the call. Lend reports false if the call holds no slots, for example
// because its turn was granted without Redis. Errors are those of [Limiter.State].
func (r *Reservation) Lend(ctx context.Context, l Lease, d time.Duration) (Lease, bool, error) {
	l.Name, l.Doing = cmp.Or(l.Name, rand.Text()), cmp.Or(l.Doing, r.call.Need.Doing())
	lent, err := r.process().Lend(ctx, r.call, l.holder(), l.Doing, d)
	return l, lent, failed("lend", r.joint, r.joint.shared().why(ctx, err))
}

// Renew lets a lease go on for d from now on. The limits and costs are those of its call. It reports
// false if the slots are lost. After a loss of data, it brings the lease back. Errors are those of
// [Limiter.State].
func (j *Joint) Renew(ctx context.Context, l Lease, d time.Duration, costs ...int) (bool, error) {
	return j.lease(ctx, "renew", costs, func(p *engine.Process, need *engine.Need) (bool, error) {
		return p.Renew(ctx, need, l.holder(), l.Doing, d)
	})
}

// EndLease frees the slots of a lease. The limits and costs are those of its call. It reports false
// if the slots are lost or free already. Errors are those of [Limiter.State].
func (j *Joint) EndLease(ctx context.Context, l Lease, costs ...int) (bool, error) {
	return j.lease(ctx, "end lease", costs, func(p *engine.Process, need *engine.Need) (bool, error) {
		return p.EndLease(ctx, need, l.holder(), l.Doing)
	})
}

func (j *Joint) lease(ctx context.Context, op string, costs []int, do func(*engine.Process, *engine.Need) (bool, error)) (held bool, err error) {
	need, err := j.needOfAny(ctx, costs, false)
	if err == nil {
		held, err = do(j.process(), &need)
	}
	return held, failed(op, j, j.shared().why(ctx, err))
}

// holder is the name in Redis. People see it, and it does not tell the name of the lease.
func (l Lease) holder() string {
	sum := sha256.Sum256([]byte(l.Name))
	return "~" + hex.EncodeToString(sum[:8])
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
