package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
)

const (
	// oneEvent is how long failures count as one: what breaks one call breaks others at the same
	// moment, and an attempt that follows at once.
	oneEvent = 200 * time.Millisecond

	// breath is the least time between two attempts to reach a Redis that is away.
	breath = 50 * time.Millisecond
)

// breaker says when Redis counts as away: it opens after some failures in a row, lets one attempt at a
// time through while it is open, and closes when one succeeds.
type breaker struct {
	failures int           // in a row: then it opens
	probe    time.Duration // between two attempts while it is open, on average
	interval time.Duration // from the begin of an attempt to the begin of the next one, while it is open
	tell     func(Event)

	known   bool      // Redis has answered once.
	cause   error     // The last failure.
	failed  int       // How many there were since the last answer, as far as they count.
	counted time.Time // When the last of those was.
	opened  time.Time // Zero: it is closed.
	trying  bool      // While it is open: an attempt was let through whose outcome is not known.
	next    time.Time // When the next attempt may be, while it is open.
}

// isOpen reports whether Redis counts as away.
func (b *breaker) isOpen() bool { return !b.opened.IsZero() }

// pass reports whether an attempt may be made now. Its outcome is to be recorded.
func (b *breaker) pass(now time.Time) bool {
	if !b.isOpen() {
		return true
	}
	if b.trying || now.Before(b.next) {
		return false
	}
	b.trying, b.next = true, now.Add(b.interval)
	return true
}

// record notes the outcome of an attempt.
func (b *breaker) record(now time.Time, err error) {
	switch {
	case err == nil && !b.isOpen() && b.failed == 0:
		b.known = true
	case b.hopeless(err): // that is no outage; the calls are to hear of it
		b.close(now)
	case fault.Away(err):
		b.failure(now, err)
		if b.failed >= b.failures && !b.isOpen() {
			b.opened, b.next = now, now.Add(b.interval)
			b.tell(Event{What: WentAway, Err: err, Never: !b.known})
		}
		b.trying = false
	default:
		b.known, b.failed = true, 0
		b.close(now)
	}
}

// abandon notes that the caller of an attempt has left, which says nothing of Redis.
func (b *breaker) abandon() { b.trying = false }

// failure counts one.
func (b *breaker) failure(now time.Time, err error) {
	b.cause = err
	if b.failed == 0 || now.Sub(b.counted) >= oneEvent {
		b.failed, b.counted = b.failed+1, now
	}
	b.next = later(b.next, now.Add(breath))
}

// close closes a breaker whose attempt has succeeded. An answer to a call from before it opened
// closes nothing.
func (b *breaker) close(now time.Time) {
	if !b.isOpen() || !b.trying {
		return
	}
	b.tell(Event{What: CameBack, Took: now.Sub(b.opened)})
	b.opened, b.trying = time.Time{}, false
}

// hopeless reports whether an error will not go away: wrong credentials, from a Redis that has never
// accepted them, a setting with which no turn can be given, or a client that was closed.
func (b *breaker) hopeless(err error) bool {
	return errors.Is(err, fault.ErrDenied) && !b.known || errors.Is(err, fault.ErrNoEffects) || errors.Is(err, redis.ErrClosed)
}

// shut is the error of a call that is not attempted.
func (b *breaker) shut() error {
	return fmt.Errorf("%w: the circuit breaker is open, and the next attempt is in up to %v; last error: %s",
		fault.ErrUnavailable, b.probe*3/2, b.cause.Error())
}
