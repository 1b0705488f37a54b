package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Away says what calls do while Redis is unreachable.
type Away int

// The values of Away: calls may do this while Redis is unreachable.
const (
	AwayWait  Away = iota // They wait until Redis is back.
	AwayFail              // They fail.
	AwayOpen              // They go on, beyond any limit.
	AwayLocal             // They go on at this process's share of the limit.
)

// outage is a time in which Redis is unreachable.
type outage struct {
	began time.Time
	spent map[*wire.Limit]*spent
	probe alarm
	looks bool // an attempt to reach Redis is under way
	tells bool // what was spent is on its way to Redis: nobody would count what is spent meanwhile
}

const (
	// probing is how often the engine asks the breaker for an attempt.
	probing = 50 * time.Millisecond

	// alone is how long a turn may be used that a process gives itself. The process gives it when it is due, so
	// its call needs time to wake. The time is short, so that few calls can come together in it.
	alone = 100 * time.Millisecond
)

// down reports whether calls do not ask, because Redis is unreachable.
func (e *Engine) down() bool { return e.outage != nil && !e.closed }

// goAway begins an outage, if none has begun.
func (e *Engine) goAway(now time.Time) {
	if e.outage != nil || e.closed {
		return
	}
	e.outage = &outage{began: now, spent: map[*wire.Limit]*spent{}}
	e.outage.probe.of = duty((*Engine).probe)
	for name := range e.names {
		name.Meter.Add(meter.Outages, 1)
	}
	for _, l := range e.inUse {
		e.alarms.clear(&l.alarm)
		l.touch()
	}
	e.takeKept(errAway, now)
	e.probe(now)
}

// probe tries from time to time whether Redis answers. An attempt takes as long as the timeouts of the client,
// and calls go on meanwhile.
func (e *Engine) probe(now time.Time) {
	if !e.down() {
		return
	}
	e.alarms.set(&e.outage.probe, now.Add(probing))
	if e.outage.looks || !e.breaker.pass(now) {
		return
	}
	b := e.heartbeat(nil, false)
	if e.unmet = false; b == nil {
		e.comeBack(now)
		return
	}
	e.outage.looks = true
	b.answered = func(now time.Time, r *Result) {
		e.heardBeat(b, r, now)
		e.comeBack(now)
	}
	b.failed = func(now time.Time, err error) {
		if !errors.Is(err, fault.ErrUnavailable) {
			e.comeBack(now)
			return
		}
		e.unmet, e.outage.looks = true, false
		e.breaker.record(now, err)
	}
	e.send(b, now)
}

// comeBack tells Redis what was spent without it: see away in settle.lua.
func (e *Engine) comeBack(now time.Time) {
	e.outage.looks, e.outage.tells = true, true
	b := e.batch(Settle)
	b.Call.Caller = e.caller(e.clock.times(now))
	for _, l := range slices.SortedFunc(maps.Keys(e.outage.spent), func(a, b *wire.Limit) int { return cmp.Compare(a.Keys[0], b.Keys[0]) }) {
		s := e.outage.spent[l]
		used := min(s.count, l.Most()) // the API has let no more through at once
		switch _, ends, _, windows := l.Left(now); {
		case l.Window() > 0 || windows: // all of it counts until its window ends
			s.enter(l, now, ends)
			used = min(used, s.inWindow())
		case s.share != nil:
			used = min(used, s.share.debt(now))
		}
		b.Used = append(b.Used, wire.Used{Limit: len(b.limits), Cost: now.Sub(e.outage.began).Microseconds(), Used: used, Again: s.share == nil})
		b.limits = append(b.limits, l)
	}
	for _, l := range e.inUse { // in a cluster, another server would answer a call without limits
		if len(b.limits) == 0 {
			b.limits = append(b.limits, l.need.Limit)
		}
	}
	b.answered = func(now time.Time, _ *Result) {
		e.breaker.record(now, nil)
		e.isBack(now)
	}
	b.failed = func(now time.Time, err error) {
		e.breaker.record(now, err)
		if fault.Away(err) && !e.breaker.hopeless(err) {
			e.outage.looks, e.outage.tells = false, false
			for _, l := range e.inUse {
				l.touch()
			}
			return
		}
		e.isBack(now)
	}
	e.send(b, now)
}

// isBack ends an outage.
func (e *Engine) isBack(now time.Time) {
	for l, s := range e.outage.spent {
		if s.count > 0 {
			e.tell(Event{What: Outlasted, N: int(s.count), Took: now.Sub(e.outage.began), Limit: l})
		}
	}
	e.alarms.clear(&e.outage.probe)
	e.outage = nil
	e.refreshLines(func(*line) bool { return true })
}

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
