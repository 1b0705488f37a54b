package engine

import (
	"errors"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file sends batches, and sends them again where Redis has not answered.

// errAway is the error of batches that are not sent because Redis counts as unreachable.
var errAway = errors.New("redis is away")

// mostLeaves is how often places are left and turns are returned again, because Redis had a plan of another kind.
const mostLeaves = 5

// dispatch sends the batches of the outbox, unless another one has to go first.
func (e *Engine) dispatch(now time.Time) {
	for e.gate == nil && len(e.outbox) > 0 {
		b := e.outbox[0]
		if b.slots && b.Script == Ask && !b.sure {
			b.sure = true
			e.ensureAlive(b, now)
		}
		switch {
		case e.breaker.isOpen():
			behead(&e.outbox)
			e.fail(b, errAway, now)
		case e.unmet:
			e.meet(now)
		case b.Script == Ask && !e.clock.sure():
			e.measure(b, now)
		default:
			behead(&e.outbox)
			e.send(b, now)
		}
	}
}

// measure finds out how far away Redis is before the process asks for its first turn. If a turn counted from
// the arrival of its reply, it would be late against the turns of others. Where Redis is near, a trip or two
// are enough.
func (e *Engine) measure(first *Batch, now time.Time) {
	b := e.batch(Inspect)
	b.Call = wire.Call{Caller: first.caller, Limits: first.limits[:1]}
	e.gate = b
	e.opens(b, func(*Result, time.Time) {})
	e.send(b, now)
}

// opens keeps the batches of the outbox back until a batch that goes first is answered. If that batch fails,
// they have failed, too. If Redis only refuses a heartbeat, they go.
func (e *Engine) opens(b *Batch, answered func(*Result, time.Time)) {
	b.answered = func(now time.Time, r *Result) {
		e.gate = nil
		answered(r, now)
	}
	b.failed = func(now time.Time, err error) {
		e.gate = nil
		if b.Script == Beat && !errors.Is(err, fault.ErrUnavailable) {
			return
		}
		e.breaker.record(now, err)
		failed := e.outbox
		e.outbox = nil
		for _, waits := range failed {
			e.tryAgain(waits, err, now)
		}
		e.unmet = e.unmet || b.Script == Beat // also where a hash slot of a cluster moves
	}
}

// send hands a batch over to a driver.
func (e *Engine) send(b *Batch, now time.Time) {
	b.Call.Now, b.Call.Clock, b.Call.Unstepped = now, b.known, e.clock.unstepped(now)
	if b.known == 0 {
		b.Call.Clock = e.clock.redis(now)
	}
	b.Call.Lost = e.lost // an earlier heartbeat may have found the loss
	if b.Call.Run = e.run; b.Script == Ask {
		b.Call.Run = e.server(now)
	}
	if b.Call.Limits == nil {
		b.Call.Limits = b.limits
	}
	b.driven = true
	e.sent++
	e.ready.Send = append(e.ready.Send, b)
}

// once sends a batch one time, if the breaker lets it through.
func (e *Engine) once(b *Batch, now time.Time) {
	if !e.breaker.pass(now) {
		b.failed(now, e.breaker.shut())
		return
	}
	b.Call.Caller = e.caller(e.clock.times(now))
	answered, failed := b.answered, b.failed
	b.answered = func(now time.Time, r *Result) {
		err := r.Reply.AnyProblem()
		if e.breaker.record(now, err); err != nil {
			failed(now, err)
			return
		}
		answered(now, r)
	}
	b.failed = func(now time.Time, err error) {
		e.breaker.record(now, err)
		failed(now, err)
	}
	e.send(b, now)
}

// Reply handles the answer of Redis to a batch.
func (e *Engine) Reply(now time.Time, b *Batch, r *Result) {
	e.sent--
	e.replied = now
	var at time.Time
	var early time.Duration
	switch b.Script {
	case Beat: // calls of a slow limit ask too rarely to learn the clocks from
		e.clock.arrival(r.Pulse.Micros, 0, r.Sent, r.Arrived)
	case Ask, Leave, Settle, Inspect:
		at, early = e.Heard(&b.Call, &r.Reply, r.Sent, r.Arrived)
	}
	if e.clock.jumped {
		e.clock.jumped = false
		e.refreshLines(func(l *line) bool { return l.need.any((*wire.Limit).Windowed) }) // windows of a calendar come sooner, or later
	}
	switch {
	case b.answered != nil:
		b.answered(now, r)
	case b.Script == Leave && b.tries < mostLeaves && errors.Is(r.Reply.AnyProblem(), wire.ErrAgain): // another plan is in force
		e.breaker.record(now, nil)
		b.tries++
		b.driven = false
		e.outbox = append(e.outbox, b)
	case b.Script == Leave:
		e.breaker.record(now, nil)
		e.lookAfter(b.limits, now)
		e.keepLeft(b, r, now)
		e.returned(b, now)
	default:
		e.breaker.record(now, nil)
		e.tell(Event{What: Asked, N: b.calls, Took: r.Arrived.Sub(r.Sent)})
		if e.unsure(b, now) {
			e.keep(b, r, at, early, now)
			return
		}
		e.take(b, r, at, early, now)
	}
}

// take delivers the answers to a batch.
func (e *Engine) take(b *Batch, r *Result, at time.Time, early time.Duration, now time.Time) {
	for _, of := range b.asks { // then no call needs the turns, and they are returned
		if e.strange {
			e.refuseOtherKind(of.line)
		}
	}
	e.halt(b.limits, &r.Reply) // before calls hear that their turns come after their deadlines
	e.deliver(b, r, at, early, now)
	if b.slots {
		e.lookAfter(b.limits, now)
	}
	e.over(b, now)
}

// Heard notes the reply to a call. It returns the moment from which the turns of the reply count, and by how
// much that moment may be early.
func (e *Engine) Heard(c *wire.Call, r *wire.Reply, sent, arrived time.Time) (at time.Time, early time.Duration) {
	at, early = e.clock.arrival(r.Micros, c.Way, sent, arrived)
	run, follow, anew := c.Learn(r, at)
	e.answeredBy(run, arrived)
	for _, l := range anew {
		e.bringTags(l.Keys[0])
	}
	for _, l := range follow {
		e.tell(Event{What: Follows, Limit: l})
	}
	return at, early
}

// bringTags makes all waiting calls of flows ask at a limit whose state was lost. Redis gives a new call of a flow its tag
// by the tags that it knows. Without those of calls that came before, later calls would have their turns first.
func (e *Engine) bringTags(key string) {
	for _, l := range e.inUse {
		if l.isAt(key) && l.need.Flow.Weight > 0 {
			l.brings = true
			l.refresh(-1, len(l.places))
		}
	}
}

// Failed handles a batch that Redis has not answered, or has refused.
func (e *Engine) Failed(now time.Time, b *Batch, err error) {
	e.sent--
	if b.failed != nil {
		b.failed(now, err)
		return
	}
	e.breaker.record(now, err)
	if b.Script == Ask {
		b.again(b.Call.Clock)
	}
	e.tryAgain(b, err, now)
}

// tryAgain sends a failed batch again after a pause, unless that is in vain.
func (e *Engine) tryAgain(b *Batch, err error, now time.Time) {
	if !fault.Away(err) || e.breaker.hopeless(err) {
		e.fail(b, err, now)
		return
	}
	if !errors.Is(err, fault.ErrMigrating) {
		e.unmet = true
	}
	e.tell(Event{What: BatchFailed, N: 1, Err: err})
	switch {
	case e.breaker.isOpen():
		e.fail(b, errAway, now)
	case e.closed:
		e.fail(b, e.cfg.Errors.Closed, now)
	default:
		b.driven = false
		e.alarms.set(&b.alarm, now.Add(e.backoff(b.tries)))
		b.tries++
	}
}

// backoff returns the pause after the nth failure in a row.
func (e *Engine) backoff(n int) time.Duration {
	return time.Duration((0.5 + e.cfg.Random()) * float64(min(50*time.Millisecond<<min(n, 5), time.Second)))
}

// isDue sends the batch again after its pause.
func (b *Batch) isDue(e *Engine, _ time.Time) { e.outbox = append(e.outbox, b) }

// fail ends a batch that has failed for good, or that is not sent because Redis counts as unreachable.
func (e *Engine) fail(b *Batch, err error, now time.Time) {
	away := errors.Is(err, errAway)
	if away {
		defer e.goAway(now)
	}
	// Redis learns of the ended turns when it is back, or when the process counts as dead.
	if b.Script == Leave {
		for _, ended := range b.ended {
			if away && !e.closed {
				ended.line.done = append(ended.line.done, ended.turn)
			}
		}
		e.returned(b, now)
		return
	}
	if !b.kept {
		e.tell(Event{What: Asked, N: b.calls, Took: now.Sub(b.Call.Now), Err: err})
	}
	for i, of := range b.asks {
		item := &b.Items[i]
		switch {
		case of.lease != nil:
			of.lease.isAsked()
		case away:
			e.lose(of, item.Number, item.Count)
			of.mayStand(item)
			of.line.takesBack(b, item)
		default:
			for range item.Count {
				of.line.refuse(of.place, err)
			}
		}
	}
	e.over(b, now)
}

// over ends a batch whose calls have their answers.
func (e *Engine) over(b *Batch, now time.Time) {
	e.calls -= b.calls
	for _, of := range b.asks {
		if len(of.line.places) > 0 {
			of.line.overdue(now)
		}
		of.line.touch()
	}
	b.isOver(e)
}

// isOver frees the batch, unless it has a driver, which frees it.
func (b *Batch) isOver(e *Engine) {
	if b.over = true; !b.driven {
		e.Free(b)
	}
}

// Free lets another batch ask, because the driver of this one has done with it.
func (e *Engine) Free(b *Batch) {
	if !b.kept {
		e.busy--
	}
	e.recycle(b)
}
