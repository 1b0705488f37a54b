package reserve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// The errors, and what each asks you to do. Test with errors.Is; an [*Error] carries the details.
var (
	// ErrInvalid: an argument or a setting is wrong; the text names it and its
	// value. Correct the call.
	ErrInvalid = fault.ErrInvalid

	// ErrExceedsBurst: the call costs more permits than the limit's burst, so its turn could never
	// come. Split the call or raise the burst. It is also an ErrInvalid.
	ErrExceedsBurst = fault.ErrExceeds

	// ErrWouldMissDeadline: the turn would come after the context's deadline. No permit was used,
	// and the call has no place in the queue. Try later, or with more time. [Error.Wait] says how
	// much time is needed, [Error.Left] how much there was, and [Error.RetryAfter] when that much
	// will be enough. It is also a context.DeadlineExceeded. Forecasts do not count booked calls, so
	// a call that passes this check may still miss its deadline in the queue.
	//
	// In a loop over many calls, do not try the next call at once: it would fail, too. Wait with a
	// context without a deadline, and give the deadline to the request. Before RetryAfter, a new
	// attempt may get a forecast that is up to a second old.
	ErrWouldMissDeadline error = wouldMiss{}

	// ErrQueueFull: [Config.MaxWaiting] calls of the fleet wait at the limit already. The call has no place
	// in the queue, and no permit was used. Drop the call, or try later: [Error.Wait] says when the turn
	// of a call would come that joined now.
	ErrQueueFull = errors.New("the queue is full")

	// ErrUnavailable: Redis is unreachable, or refuses calls for now. The text says what can be
	// done, and the cause is in the chain. No turn was granted. Try again. Waiting calls return it
	// only under [PolicyFail], or if the client was closed. A closed client is also a
	// redis.ErrClosed, and trying again does not help.
	ErrUnavailable = fault.ErrUnavailable

	// ErrOutcomeUnknown comes with ErrUnavailable if Redis may have carried out the request, and
	// only the reply was lost. It never makes more calls possible than the limit allows. A call
	// with an ID may ask again under its ID.
	ErrOutcomeUnknown = fault.ErrOutcomeUnknown

	// ErrDenied: Redis does not let this client in, or forbids what a limiter needs. The text says
	// which case it is:
	//
	//   - the password or the user is wrong
	//   - the user's rules lack a command or the keys
	//   - client and server do not agree on TLS
	//   - a Redis before 7 is set to lua-replicate-commands no
	//
	// Correct the client's options, the user's rules (see lua.ACL), or the setting. After a limiter
	// has once been let in, it treats the first three as an outage, see [Outage].
	ErrDenied = fault.ErrDenied

	// ErrCorrupt: a key of the limit holds something that is not its state.
	// Nothing was changed. Look at the key that the text names; if nothing else
	// owns it, delete it.
	ErrCorrupt = fault.ErrCorrupt

	// ErrVersion: processes of another version of fleetpace use the limit, and the two versions
	// cannot share it. The text says which version, and what to do. No turn was granted. A version and the next
	// one always share limits; v0.2 shares none with later versions. Calls succeed a few seconds
	// after those processes have stopped.
	ErrVersion = fault.ErrVersion

	// ErrExhausted: what the provider sells is used up: see [Limiter.Stop]. No turn was granted. The
	// [Exhausted] in the chain says why, and until when. Do not try again before that: use another
	// provider, or give the work back.
	ErrExhausted = errors.New("the limit is stopped")

	// ErrClosed: the limiter was closed. Its waiting calls have left the queue.
	ErrClosed = errors.New("limiter is closed")

	// ErrCancelled: the reservation was cancelled and has no turn any more.
	ErrCancelled = errors.New("reservation was cancelled")
)

// Error says which call failed, for which limit, and why.
type Error struct {
	Op  string // the method, in lower case: "wait", "reserve", "set limit" …
	Key string // the limit: its name, and the key of [Limiter.For] after a slash
	// Wait is the time until the turn would have come; 0 if not known, as with [ErrExhausted]. For a call of
	// [Limiter.Staying] at a stop it is at most a day, or 5 minutes if nobody knows the end.
	Wait time.Duration
	Left time.Duration // until the deadline that the call would have missed; 0 if it is past or not known
	// RetryAfter is how long to wait after an [ErrWouldMissDeadline] before the next attempt. By
	// the current forecast, a call that then has the same time left will get its turn in time: a few
	// milliseconds before its deadline. 0 if not known.
	RetryAfter time.Duration
	// HeldBy is the limit of a [Joint] that holds the call back most; empty if not known.
	HeldBy string

	Err error // one of the errors above, joined with the cause if there is one
}

func (e *Error) Error() string {
	text := fmt.Sprintf("reserve: %s %q: %v", e.Op, e.Key, e.Err)
	if e.Wait > 0 {
		text += fmt.Sprintf(": the turn is in %v", e.Wait.Round(time.Millisecond))
		if errors.Is(e.Err, ErrWouldMissDeadline) {
			text += fmt.Sprintf(", the deadline in %v", e.Left.Round(time.Millisecond))
			if e.RetryAfter > 0 {
				text += fmt.Sprintf(": try again in %v", e.RetryAfter.Round(time.Millisecond))
			}
		}
		if e.HeldBy != "" {
			text += fmt.Sprintf(", held back by %q", e.HeldBy)
		}
	}
	return text
}

// Unwrap returns the sentinel and the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// invalid names the field and what is wrong with its value.
func invalid(field, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", ErrInvalid, field, fmt.Sprintf(format, args...))
}

// exceeds is an ErrInvalid that is also an ErrExceedsBurst.
type exceeds struct{ error }

func (e *exceeds) Unwrap() []error { return []error{e.error, ErrExceedsBurst} }

// failed returns the error of a method for one or several limits; nil stays nil.
func failed(op string, of fmt.Stringer, err error) error {
	if err == nil { // before what follows allocates
		return nil
	}
	var typed *Error
	if errors.As(err, &typed) {
		return err
	}
	e := &Error{Op: op, Key: of.String(), Err: err}
	var crowd *crowded
	if errors.As(err, &crowd) {
		e.Wait = crowd.wait
	}
	var miss *missed
	if errors.As(err, &miss) {
		if of, calls := of.(interface {
			sure(time.Duration) time.Duration
		}); calls {
			miss.wait = of.sure(miss.wait)
		}
		e.Wait, e.Left, e.RetryAfter = miss.wait, miss.left, max(0, miss.wait-miss.left+engine.Margin)
		if j, several := of.(*Joint); several && len(j.limits) > 1 && miss.slowest >= 0 {
			e.HeldBy = j.limits[miss.slowest].String()
		}
	}
	return e
}

// wouldMiss is ErrWouldMissDeadline.
type wouldMiss struct{}

func (wouldMiss) Error() string { return "would miss the deadline" }
func (wouldMiss) Unwrap() error { return context.DeadlineExceeded }

// missed is an ErrWouldMissDeadline with the details for an Error.
type missed struct {
	wait, left time.Duration
	slowest    int // index of the limit that delays the call most; -1: not known
}

func miss(turn, deadline time.Time, slowest int) error {
	return &missed{max(0, time.Until(turn)), max(0, time.Until(deadline)), slowest}
}

func (m *missed) Error() string { return ErrWouldMissDeadline.Error() }
func (m *missed) Unwrap() error { return ErrWouldMissDeadline }

// crowded is an ErrQueueFull of a limit.
type crowded struct {
	limit *wire.Limit
	wait  time.Duration
}

func full(limit *wire.Limit, turn time.Time) error {
	return &crowded{limit, max(0, time.Until(turn))}
}

func (c *crowded) Error() string {
	return fmt.Sprintf("%v: %d calls of the fleet wait at %q, as many as Config.MaxWaiting allows", ErrQueueFull, c.limit.MaxWaiting, c.limit)
}
func (c *crowded) Unwrap() error { return ErrQueueFull }

// errAway is the error of calls under PolicyFail. The breaker knows the cause.
var errAway = errors.New("redis is away")

// why returns the error for the caller. If the context has ended during an outage, that is the
// context's error. Under PolicyFail it says why Redis is unreachable.
func (s *shared) why(ctx context.Context, err error) error {
	if err == errAway { //nolint:errorlint // the sentinel itself
		err = s.process.Shut()
	}
	if gone := ctx.Err(); gone != nil && fault.Away(err) {
		return gone
	}
	return err
}
