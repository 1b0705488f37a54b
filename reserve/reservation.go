package reserve

import (
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/meter"
)

// A Reservation is a call in the queue, whether or not a Wait blocks for it. [Limiter.Reserve],
// [Joint.Reserve], [Joint.Ask] and [Joint.Acquire] make one. Redis grants its turn at most half a
// second early; until then, its moment is a forecast. It is safe for concurrent use, but only one
// Wait at a time. A Settle or Estimate during a Wait fails with [ErrInvalid].
type Reservation struct {
	joint *Joint
	call  *engine.Call

	mu      sync.Mutex
	waiting bool    // a Wait is running
	failed  bool    // a Wait ended with a final error
	settled bool    // its real cost was reported
	stops   []int64 // what it probes, if it has its turn although a limit is stopped; never changes

	back time.Time // when it is to ask again, if Ask has booked it; never changes

	charge *engine.Charge // what the limits count for the call; nil: its costs
	told   []int64        // what the call has used, as far as it was settled; -1: not known
}

func (r *Reservation) process() *engine.Process { return r.joint.process() }

func (r *Reservation) view() engine.View { return r.process().View(r.call) }

// ID is the ID that [Joint.Ask] was given for the call, or empty.
func (r *Reservation) ID() string { return r.call.Need.ID }

// Due is the moment of the turn on the local clock: a forecast until the turn is granted. A booked call of a limit
// whose stop has no known end is to ask again within ten minutes.
func (r *Reservation) Due() time.Time {
	v := r.view()
	if (v.State == engine.Booked || v.State == engine.Back) && !r.back.IsZero() && r.back.Before(v.Due) {
		return r.back
	}
	return v.Due
}

// Delay is the time until Due; 0 once the turn has come.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.Due())) }

// Granted reports whether the turn is granted, so that Delay is no longer a forecast. Only a pause or
// a hard stop can still revoke such a turn.
func (r *Reservation) Granted() bool { return r.view().Turn != nil }

// Lapsed reports whether the turn has expired: it came so long ago that its permits are gone, and a
// call made now would be one too many. Wait then asks for a new turn, even if an earlier Wait has
// returned and its call was not made in time.
func (r *Reservation) Lapsed() bool {
	v := r.view()
	return lapsed(&v)
}

func lapsed(v *engine.View) bool { return v.Turn != nil && time.Now().After(v.Turn.Until) }

// Until is the latest moment at which the turn may be used, on the local clock. A call made later
// is one too many. It is the zero time until a turn is granted.
func (r *Reservation) Until() time.Time {
	v := r.view()
	return v.Until()
}

// Booked reports whether the call is booked: its turn is later than the patience of [Joint.Ask], or
// Book put it back. Ask again shortly before it is Due.
func (r *Reservation) Booked() bool {
	state := r.view().State
	return state == engine.Booked || state == engine.Back
}

// HeldBy is the limit that the call waits for longest, by the current forecast; nil once its turn
// has come.
func (r *Reservation) HeldBy() *Limiter {
	v := r.view()
	if time.Until(v.Due) <= 0 {
		return nil
	}
	return r.joint.limits[v.Slowest]
}

// Wait blocks until the turn has come. A nil error means call now, and uses the reservation up. If
// the context ends first, the call keeps its place: Wait again, or Cancel. Unlike [Limiter.Wait],
// it does not refuse a turn that comes after the deadline.
//
// Errors: those of [Limiter.WaitN] except [ErrWouldMissDeadline], and [ErrCancelled]. It also returns an
// [ErrInvalid] in three cases: the turn was used and has not [Reservation.Lapsed], another Wait is
// running, or the call is booked.
func (r *Reservation) Wait(ctx context.Context) error {
	return failed("wait", r.joint, r.wait(ctx, 0))
}

// WaitEarly is Wait for a call that another program makes. It returns up to early before the turn
// is Due, so that the message reaches that program in time. The call must not be made before Due,
// nor after Until. Early is from 0 to half a second.
func (r *Reservation) WaitEarly(ctx context.Context, early time.Duration) error {
	if early < 0 || early > Lead {
		return failed("wait", r.joint, invalid("early", "must be from 0 to %v, got %v", Lead, early))
	}
	return failed("wait", r.joint, r.wait(ctx, early))
}

// Late says, after a Wait, that the call was not made, because the turn reached the caller too
// late. The call returns to the front of the queue; Wait for another turn. Way is the delay from
// here to the caller, from 0 to half a second; the next turn is due later by it. If unused is true,
// the call was certainly not made, and the permits come back unless a later turn was granted.
//
// Errors: [ErrCancelled], [ErrClosed], and [ErrInvalid], for example if the turn was not used.
func (r *Reservation) Late(way time.Duration, unused bool) error {
	return failed("late", r.joint, r.late(way, unused))
}

func (r *Reservation) late(way time.Duration, nobody bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view()
	if err := r.usable(&v); err != nil {
		return err
	}
	switch {
	case way < 0 || way > Lead:
		return invalid("way", "must be from 0 to %v, got %v", Lead, way)
	case v.State != engine.Used:
		return r.invalid("has no turn that was used: Wait comes before")
	}
	r.wasted(v.Turn)
	return r.process().Late(r.call, way, nobody)
}

// wasted records that the call was not made though its turn was used.
func (r *Reservation) wasted(turn *engine.Turn) {
	unused(&r.call.Need, turn, r.joint.limits...)
	r.Release()
}

func (r *Reservation) wait(ctx context.Context, early time.Duration) error {
	if r.Probes() { // it has its turn
		return ctx.Err()
	}
	if err := r.joint.ready(ctx); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	turn, err := r.process().WaitFor(ctx, r.call, early)
	r.mu.Lock()
	r.waiting = false
	r.mu.Unlock()
	if err == nil {
		used(ctx, &r.call.Need, turn, r.joint.limits...)
		return nil
	}
	err = r.joint.shared().why(ctx, err)
	if r.over(err) {
		ended(ctx, &r.call.Need, 0, err, r.joint.limits...)
	}
	return err
}

// over records that an error has ended the call, and reports whether it is the first such error. If
// the context has ended, the call keeps its place.
func (r *Reservation) over(err error) bool {
	if resultOf(err) == meter.GivenUp {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.failed
	r.failed = true
	return first
}

// begin starts a wait for the turn.
func (r *Reservation) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view()
	if err := r.usable(&v); err != nil {
		return err
	}
	switch {
	case v.State == engine.Booked:
		return r.invalid("is booked: ask again shortly before it is due")
	case v.State != engine.Used:
	case lapsed(&v):
		r.wasted(v.Turn)
	default:
		return r.invalid("is used up")
	}
	r.waiting = true
	return nil
}

// invalid returns the error for a method that was called too early, too late or twice.
func (r *Reservation) invalid(what string) error {
	if r.ID() == "" {
		return invalid("reservation", "it %s", what)
	}
	return invalid("reservation", "%q %s", r.ID(), what)
}

// usable says why the turn cannot be used or put back; nil: it can. The Reservation must be locked.
func (r *Reservation) usable(v *engine.View) error {
	switch {
	case v.State == engine.Gone:
		return ErrCancelled
	case r.settled:
		return r.invalid("is used up")
	case v.State == engine.Back:
		return r.invalid("was booked: ask again shortly before it is due")
	case r.waiting:
		return r.invalid("is waited for already")
	}
	return nil
}

// Cancel leaves the queue, and later calls move forward. The permits of a granted turn come back
// unless a later turn was granted. Cancel also ends a Wait, which returns [ErrCancelled], and a
// booking that [Joint.Ask] made. It does nothing if the reservation was cancelled, its turn was
// used, or the call was put back. After an error it may be repeated. It works after
// [Limiter.Close].
func (r *Reservation) Cancel(ctx context.Context) error {
	return failed("cancel", r.joint, r.cancel(ctx))
}

func (r *Reservation) cancel(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx", "must not be nil")
	}
	booked, over := r.process().Cancel(r.call)
	if booked {
		if err := r.process().Drop(ctx, &r.call.Need); err != nil {
			r.process().Restore(r.call)
			return r.joint.shared().why(ctx, err)
		}
	}
	r.mu.Lock()
	counted := r.failed
	r.mu.Unlock()
	if over && (booked || !counted) {
		ended(ctx, &r.call.Need, 0, ErrCancelled, r.joint.limits...)
	}
	return nil
}

// PutBack puts the call back under its ID, to be made later or by another process, for example because
// its worker stops. The call keeps its place in the order. The permits of a granted turn come back
// unless a later turn was granted. End a Wait before you call PutBack. After a Wait that returned nil,
// PutBack says that the call was not made. If the call is booked already, PutBack changes nothing.
//
// Errors: [ErrCancelled], [ErrClosed], the context's, and [ErrInvalid], for example for a call
// without an ID.
func (r *Reservation) PutBack(ctx context.Context) error {
	return failed("put back", r.joint, r.book(ctx, false))
}

// PutBackUnsure is PutBack for a call that may never come back, because nobody knows whether its caller still
// exists. The call keeps its place in the order, and forecasts of other calls leave it out.
func (r *Reservation) PutBackUnsure(ctx context.Context) error {
	return failed("put back unsure", r.joint, r.book(ctx, true))
}

func (r *Reservation) book(ctx context.Context, unsure bool) error {
	if err := r.joint.ready(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view()
	if v.State == engine.Back {
		return nil
	}
	if err := r.usable(&v); err != nil {
		return err
	}
	if r.ID() == "" {
		return r.invalid("has no ID to be booked under: use Joint.Ask")
	}
	if v.State == engine.Used {
		r.wasted(v.Turn)
	}
	r.process().PutBack(r.call, unsure)
	return nil
}
