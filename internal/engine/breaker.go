package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
)

const (
	// oneEvent is how long failures count as one: what breaks one call also breaks other calls at the same
	// moment, and an attempt that follows at once.
	oneEvent = 200 * time.Millisecond

	// breath is the least time between two attempts to reach an unreachable Redis.
	breath = 50 * time.Millisecond
)

// breaker says when Redis counts as unreachable. It opens after some failures in a row. While it is open, it
// lets one attempt at a time through, and it closes when an attempt succeeds.
type breaker struct {
	failures int           // how many in a row open it
	probe    time.Duration // the average time between two attempts while it is open
	interval time.Duration // from the start of one attempt to the start of the next, while it is open
	tell     func(Event)

	known   bool      // Redis has answered once.
	cause   error     // The last failure.
	failed  int       // How many failures count since the last answer.
	counted time.Time // When the last failure counted.
	opened  time.Time // When it opened. Zero: it is closed.
	trying  bool      // While it is open: an attempt is under way.
	next    time.Time // While it is open: the earliest moment of the next attempt.
}

// isOpen reports whether Redis counts as unreachable.
func (b *breaker) isOpen() bool { return !b.opened.IsZero() }

// pass reports whether an attempt may be made now. The caller has to record its outcome.
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
	case b.hopeless(err): // that is no outage, and calls have to fail with the error
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

// abandon notes that the caller of an attempt has left. Its outcome says nothing about Redis.
func (b *breaker) abandon() { b.trying = false }

// failure counts a failure.
func (b *breaker) failure(now time.Time, err error) {
	b.cause = err
	if b.failed == 0 || now.Sub(b.counted) >= oneEvent {
		b.failed, b.counted = b.failed+1, now
	}
	b.next = later(b.next, now.Add(breath))
}

// close closes an open breaker whose attempt has ended. An answer to a call that was sent before it opened does
// not close it.
func (b *breaker) close(now time.Time) {
	if !b.isOpen() || !b.trying {
		return
	}
	b.tell(Event{What: CameBack, Took: now.Sub(b.opened)})
	b.opened, b.trying = time.Time{}, false
}

// hopeless reports whether an error will stay: credentials that Redis has never accepted, a setting with which
// no turn can be given, or a client that was closed.
func (b *breaker) hopeless(err error) bool {
	return errors.Is(err, fault.ErrDenied) && !b.known || errors.Is(err, fault.ErrNoEffects) || errors.Is(err, redis.ErrClosed)
}

// shut returns the error of a call that is not attempted.
func (b *breaker) shut() error {
	return fmt.Errorf("%w: the circuit breaker is open, and the next attempt is in up to %v; last error: %s",
		fault.ErrUnavailable, b.probe*3/2, b.cause.Error())
}
