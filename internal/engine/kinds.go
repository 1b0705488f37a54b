package engine

import (
	"errors"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// A name has one kind of limit (see package lua). The first heartbeat that tells of a name is sent beside
// the first ask, so neither waits for the other. The answers to the ask are kept until Redis has said
// which kind is in force. If that is another kind, the calls fail, and their turns go back.

// keptAnswers is a batch whose answers are kept.
type keptAnswers struct {
	batch  *Batch
	result Result
	at     time.Time
	early  time.Duration
}

// otherKind returns the error of calls with a limit of another kind than the one in force under its name;
// nil: none of theirs is.
func (e *Engine) otherKind(n *Need) (err error) {
	if err = e.otherThan(n.Limit); err == nil && len(n.More) > 0 {
		n.each(func(p Part) {
			if err == nil {
				err = e.otherThan(p.Limit)
			}
		})
	}
	return err
}

// otherThan is the same for some limits.
func (e *Engine) otherThan(limits ...*wire.Limit) error {
	for _, l := range limits {
		if other := l.Name.Other.Load(); other != nil && e.cfg.Errors.Kind != nil {
			return e.cfg.Errors.Kind(l.Name, *other)
		}
	}
	return nil
}

// refuseOtherKind ends the waits of calls of another kind than the one in force.
func (e *Engine) refuseOtherKind(l *line) {
	if err := e.otherKind(&l.need); err != nil {
		l.failAll(err)
	}
}

// unsure reports whether Redis has not said yet which kind of limit is in force for some names of a batch.
func (e *Engine) unsure(b *Batch, now time.Time) (unsure bool) {
	for _, l := range b.limits {
		if !l.Name.Sure.Load() && l.Name.Other.Load() == nil && !e.closed {
			e.useLimit(l, now)
			unsure = true
		}
	}
	return unsure
}

// keep keeps the answers to a batch until Redis has said so. Other batches may ask meanwhile.
func (e *Engine) keep(b *Batch, r *Result, at time.Time, early time.Duration) {
	e.busy--
	b.kept, b.driven = true, false
	e.traffic.kept = append(e.traffic.kept, &keptAnswers{b, *r, at, early})
}

// takeKept takes in the answers that were kept, as far as that is known by now; after a failure nothing is
// known of them.
func (e *Engine) takeKept(err error, now time.Time) {
	all := e.traffic.kept
	e.traffic.kept = nil
	for _, k := range all {
		switch {
		case err != nil:
			e.fail(k.batch, err, now)
		case e.unsure(k.batch, now):
			e.traffic.kept = append(e.traffic.kept, k)
			e.hurry(now)
		default:
			e.take(k.batch, &k.result, k.at, k.early, now)
		}
	}
}

// heardNoKinds takes in that a heartbeat has failed. Where Redis takes none, or denies them, nothing is
// known of other kinds.
func (e *Engine) heardNoKinds(err error, now time.Time) {
	if !fault.Away(err) || errors.Is(err, fault.ErrMigrating) || errors.Is(err, fault.ErrDenied) {
		for name := range e.names {
			name.Sure.Store(true)
		}
		e.takeKept(nil, now)
		return
	}
	if len(e.traffic.kept) == 0 {
		return
	}
	e.breaker.record(now, err)
	e.tell(Event{What: BatchFailed, N: 1, Err: err})
	if e.breaker.isOpen() {
		e.takeKept(errAway, now)
		return
	}
	e.alarms.set(&e.heart.alarm, now.Add(e.backoff(e.failures)))
}

// rather reports which of two names in use that share keys Redis is told of: the slower one or, of two
// kinds of limit, the one in force, and if that does not tell, the one that was used first.
func (e *Engine) rather(name, other *wire.Name) bool {
	if name.Kind == other.Kind && name.Pace != other.Pace {
		return name.Pace < other.Pace
	}
	if fits := name.Other.Load() == nil; fits != (other.Other.Load() == nil) {
		return fits
	}
	return e.names[name].order < e.names[other].order
}

// kindOf takes in which kind of limit is in force under a name of this process, as a heartbeat says that
// told of another one with the same keys, or of itself.
func (e *Engine) kindOf(name *wire.Name, told *wire.Told, ruling wire.Ruling, now time.Time) {
	u := e.names[name]
	if told.Ends {
		name.Other.Store(nil)
		name.Sure.Store(false)
		return
	}
	if ruling.Kind == "" || ruling.Kind == name.Kind {
		name.Other.Store(nil)
		name.Sure.Store(told.Name.Kind == name.Kind)
		if told.Name.Kind != name.Kind { // Redis is to be told of this one
			u.stale = now
			e.hurry(now)
		}
		return
	}
	name.Other.Store(&ruling.Limit)
	name.Sure.Store(true)
	e.strange = true
	if u.ruling == ruling.Limit {
		return
	}
	u.ruling = ruling.Limit
	for l := range u.limits {
		e.tell(Event{What: Unfit, Limit: l, Text: ruling.Limit})
		return
	}
}
