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
// Wait at a time.
type Reservation struct {
	joint *Joint
	need  engine.Need
	held  *engine.Held

	mu      sync.Mutex
	stage   stage
	turn    engine.Turn        // the turn that was used
	slots   *engine.Slots      // the slots that it holds; nil: none
	failed  bool               // a Wait ended with a final error
	settled bool               // its real cost was sent to Redis, or is being sent
	leave   context.CancelFunc // ends the current Wait; nil without one
	left    chan struct{}      // closed when the last Wait is over; nil: there was none
}

// stage is the state of a Reservation.
type stage int

const (
	open stage = iota
	used
	cancelled
	booked // the next Ask with its ID owns it
)

// ID is the ID that [Joint.Ask] was given for the call, or empty.
func (r *Reservation) ID() string { return r.need.ID }

// Due is the moment of the turn on the local clock: a forecast until the turn is granted.
func (r *Reservation) Due() time.Time { return r.held.Due() }

// Delay is the time until Due; 0 once the turn has come.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.Due())) }

// Final reports whether the turn is granted, so that Delay is no longer a forecast. Only a pause
// can still revoke such a turn.
func (r *Reservation) Final() bool { return r.held.Given() }

// Lapsed reports whether the turn has expired: it came so long ago that its permits are gone, and a
// call made now would be one too many. Wait then asks for a new turn, even if an earlier Wait has
// returned and its call was not made in time.
func (r *Reservation) Lapsed() bool { return r.held.Given() && time.Now().After(r.held.Until()) }

// Until is the latest moment at which the turn may be used, on the local clock. A call made later
// is one too many. It is the zero time until a turn is granted.
func (r *Reservation) Until() time.Time { return r.held.Until() }

// Booked reports whether the call is booked: its turn is later than the patience of [Joint.Ask], or
// Book put it back. Ask again shortly before it is Due.
func (r *Reservation) Booked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stage == booked || r.held.Booked()
}

// HeldBy is the limit that the call waits for longest, by the current forecast; nil once its turn
// has come.
func (r *Reservation) HeldBy() *Limiter {
	if r.Delay() == 0 {
		return nil
	}
	return r.joint.limits[r.held.Slowest()]
}

// Wait blocks until the turn has come. A nil error means call now, and uses the reservation up. If
// the context ends first, the call keeps its place: Wait again, or Cancel. Unlike [Limiter.Wait],
// it does not refuse a turn that comes after the deadline.
//
// Errors: the context's, [ErrCancelled], [ErrUnavailable], [ErrDenied], [ErrCorrupt] and
// [ErrClosed]. It returns an [ErrInvalid] in three cases: the turn was used and has not
// [Reservation.Lapsed], another Wait is running, or the call is booked.
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
	if err := r.usable(); err != nil {
		return err
	}
	switch {
	case way < 0 || way > Lead:
		return invalid("way", "must be from 0 to %v, got %v", Lead, way)
	case r.stage != used:
		return r.invalid("has no turn that was used: Wait comes before")
	}
	unused(&r.need, &r.turn, r.joint.limits...)
	r.release()
	if err := r.held.Late(way, nobody); err != nil {
		return err
	}
	r.stage = open
	return nil
}

func (r *Reservation) wait(ctx context.Context, early time.Duration) error {
	if _, err := r.joint.need(ctx, nil); err != nil {
		return err
	}
	waiting, err := r.begin(ctx)
	if err != nil {
		return err
	}
	turn, err := r.held.WaitEarly(waiting, early)
	err = r.joint.shared().why(ctx, r.end(turn, err))
	switch {
	case err == nil:
		tell(ctx, &r.need, &turn, r.joint.limits...)
	case r.over(err):
		ended(ctx, &r.need, 0, err, r.joint.limits...)
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
func (r *Reservation) begin(ctx context.Context) (context.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.usable(); err != nil {
		return nil, err
	}
	if r.stage == used && !r.Lapsed() {
		return nil, r.invalid("is used up")
	}
	if r.held.Booked() {
		return nil, r.invalid("is booked: ask again shortly before it is due")
	}
	if r.stage == used {
		unused(&r.need, &r.turn, r.joint.limits...)
		r.release()
	}
	r.stage = open
	ctx, r.leave = context.WithCancel(ctx)
	r.left = make(chan struct{})
	return ctx, nil
}

// invalid returns the error for a method that was called too early, too late or twice.
func (r *Reservation) invalid(what string) error {
	if r.need.ID == "" {
		return invalid("reservation", "it %s", what)
	}
	return invalid("reservation", "%q %s", r.need.ID, what)
}

// usable says why the turn cannot be used or put back; nil: it can. The Reservation must be locked.
func (r *Reservation) usable() error {
	switch {
	case r.stage == cancelled:
		return ErrCancelled
	case r.settled:
		return r.invalid("is used up")
	case r.stage == booked:
		return r.invalid("was booked: ask again shortly before it is due")
	case r.leave != nil:
		return r.invalid("is waited for already")
	}
	return nil
}

// end records how a Wait ended. If a Cancel comes while the turn is being used, it is too late.
func (r *Reservation) end(turn engine.Turn, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave()
	close(r.left)
	r.leave = nil
	switch {
	case err == nil:
		r.stage, r.turn, r.slots = used, turn, r.held.Slots()
		report(&r.need, &turn, r.joint.limits...)
	case r.stage == cancelled:
		err = ErrCancelled
	}
	return err
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
	r.mu.Lock()
	if r.stage != open {
		r.mu.Unlock()
		return nil
	}
	r.stage = cancelled
	left, counted := r.left, r.failed
	if r.leave != nil {
		r.leave()
	}
	r.mu.Unlock()
	if left != nil {
		<-left
	}
	if !r.held.Booked() {
		if r.held.Cancel() && !counted { // Cancel does nothing if the turn was used at that moment
			ended(ctx, &r.need, 0, ErrCancelled, r.joint.limits...)
		}
		return nil
	}
	err := r.joint.process().Drop(ctx, r.need)
	if err == nil {
		ended(ctx, &r.need, 0, ErrCancelled, r.joint.limits...)
	} else {
		r.mu.Lock()
		r.stage = open
		r.mu.Unlock()
	}
	return r.joint.shared().why(ctx, err)
}

// Book puts the call back under its ID, to be made later or by another process, for example because
// its worker stops. The call keeps its place in the order. The permits of a granted turn come back
// unless a later turn was granted. End a Wait before you call Book. After a Wait that returned nil,
// Book says that the call was not made. If the call is booked already, Book changes nothing.
//
// Errors: [ErrCancelled], [ErrClosed], the context's, and [ErrInvalid], for example for a call
// without an ID.
func (r *Reservation) Book(ctx context.Context) error {
	return failed("book", r.joint, r.book(ctx, (*engine.Held).Book))
}

// Keep is Book for a call that may never come back, because nobody knows whether its caller still
// exists. The call keeps its place in the order, and forecasts of other calls leave it out.
func (r *Reservation) Keep(ctx context.Context) error {
	return failed("keep", r.joint, r.book(ctx, (*engine.Held).Keep))
}

func (r *Reservation) book(ctx context.Context, book func(*engine.Held) bool) error {
	if _, err := r.joint.need(ctx, nil); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stage == booked {
		return nil
	}
	if err := r.usable(); err != nil {
		return err
	}
	if r.need.ID == "" {
		return r.invalid("has no ID to be booked under: use Joint.Ask")
	}
	if r.stage == used {
		unused(&r.need, &r.turn, r.joint.limits...)
		r.release()
	}
	if !r.held.Booked() {
		book(r.held)
	}
	r.stage = booked
	return nil
}
