package reserve

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
)

// A call may be made later, and by another process than the one that books it: a task of a job
// queue, for example. It has an ID, which no other call of the fleet uses until the call was made
// or has left.

// Lead is how long before its turn a booked call should ask again.
const Lead = 500 * time.Millisecond

// Call is a call that is made later: see [Joint.Book].
type Call struct {
	ID    string // from 1 to 256 bytes of any kind
	Costs []int  // permits of each limit, in the order of [All]; empty: one of each

	// Deadline is the latest moment at which the turn is of use, on the local clock. A call whose
	// turn would come later is not booked. The zero time means no deadline.
	Deadline time.Time
}

// Booked is the answer to one Call.
type Booked struct {
	Due time.Time // forecast of its turn, on the local clock
	Err error     // why it is not booked; nil if it is
}

// Book books calls that are made later, perhaps by other processes, in their order. A booking uses
// no permits: it saves a position in the queue, under the ID of the call, and has a forecast of its
// turn. The process that makes the call asks with [Joint.Ask], a [Lead] before the turn is Due or
// earlier. If no process asks, the queue does not wait for the booking. A call that is booked
// already keeps its place.
//
// Several calls share a round trip. A call fails alone if it is invalid, the queue is full, or its
// deadline would be missed. If a request to Redis fails, its calls and all calls behind them fail, so their
// order is kept when you book them again. Each answer has its own error: [ErrWouldMissDeadline], or an error
// of [Limiter.WaitN].
func (j *Joint) Book(ctx context.Context, calls []Call) []Booked {
	booked := make([]Booked, len(calls))
	var bookings []engine.Booking
	var of []int // the index of each booking's call
	for i, c := range calls {
		if need, err := j.named(ctx, c.ID, c.Costs); err != nil {
			booked[i].Err = failed("book", j, err)
		} else {
			bookings, of = append(bookings, engine.Booking{Need: need, Deadline: c.Deadline}), append(of, i)
		}
	}
	_ = j.process().Book(ctx, bookings) // each has its error
	for k, b := range bookings {
		answer := &booked[of[k]]
		if answer.Err = failed("book", j, j.shared().why(ctx, b.Err)); b.Err == nil {
			answer.Due = j.sooner(b.Due)
		}
	}
	return booked
}

// Ask joins the queue for a call that is ready now, for the first time or again. The ID names the
// call, in 1 to 256 bytes. If its turn is within the patience, call [Reservation.Wait]. Otherwise
// the call is [Reservation.Booked]: its process need not wait, and asks again a [Lead] before the
// turn is Due, or earlier.
//
// While a limit is stopped, the call may get its turn to probe the stop: see [Limiter.Stop]. Other calls are booked,
// except those of [Joint.Leaving].
//
// You may repeat Ask under the same ID. If ctx ends during the request to Redis, Ask waits for the
// answer for at most half a second, so that the call keeps its place. A deadline does not bound the
// turn: errors are those of [Limiter.WaitN] except [ErrWouldMissDeadline].
func (j *Joint) Ask(ctx context.Context, id string, patience time.Duration, costs ...int) (*Reservation, error) {
	r, err := j.ask(ctx, id, patience, costs)
	return r, failed("ask", j, err)
}

func (j *Joint) ask(ctx context.Context, id string, patience time.Duration, costs []int) (*Reservation, error) {
	need, err := j.named(ctx, id, costs)
	if err != nil {
		return nil, err
	}
	if patience < 0 {
		return nil, invalid("patience", "must be 0 or above, got %v", patience)
	}
	need.Patience = patience
	heard, done := lasting(ctx)
	defer done()
	r, err := j.hold(heard, need, time.Time{})
	if err == nil && r.Booked() {
		if probes := j.probe(heard, need); probes != nil { // if all calls are booked, nobody else does
			_ = j.leave(heard, id, costs)
			return probes, nil
		}
		if need.Leaves {
			if err = j.Stopped(); err != nil {
				ended(ctx, &need, 0, err, j.limits...)
			}
		}
	}
	if need.Leaves && errors.Is(err, ErrExhausted) {
		_ = j.process().Drop(heard, &need) // it may be booked since earlier; else the booking ends by itself
	}
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	r.back = j.sooner(r.view().Due)
	return r, nil
}

// sooner returns when a booked call is to ask again. A stop whose end nobody knows may end at any time, so its calls
// come back within ten minutes, and not all at once.
func (j *Joint) sooner(due time.Time) time.Time {
	for _, l := range j.limits {
		if s := l.limit.Stopped(); s != nil && s.Until.IsZero() {
			if back := time.Now().Add(probeEvery + rand.N(probeEvery)); back.Before(due) {
				return back
			}
		}
	}
	return due
}

// lasting lets a request continue for a moment after its context has ended: if nobody read the
// answer, the call would lose the place that it has kept.
func lasting(ctx context.Context) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(time.Second/2, cancel) })
	return longer, func() { stop(); cancel() }
}

// CancelBooking ends a booking: the call will not be made. Give the costs of the booking. CancelBooking may be
// repeated, and works after [Limiter.Close]. Errors: [ErrInvalid], [ErrExceedsBurst],
// [ErrUnavailable], [ErrDenied], [ErrCorrupt], or the context's.
func (j *Joint) CancelBooking(ctx context.Context, id string, costs ...int) error {
	return failed("cancel booking", j, j.leave(ctx, id, costs))
}

func (j *Joint) leave(ctx context.Context, id string, costs []int) error {
	if err := validateID(id); err != nil {
		return err
	}
	need, err := j.needOfAny(ctx, costs, false)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	need.ID = id
	if err = j.process().Drop(ctx, &need); err == nil {
		ended(ctx, &need, 0, ErrCancelled, j.limits...)
	}
	return j.shared().why(ctx, err)
}

// named returns the need of a call with an ID.
func (j *Joint) named(ctx context.Context, id string, costs []int) (engine.Need, error) {
	if err := validateID(id); err != nil {
		return engine.Need{}, err
	}
	need, err := j.need(ctx, costs)
	need.ID = id
	return need, err
}
