package engine

import (
	"errors"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// A name has one kind of limit (see package lua). The first heartbeat with a name is sent beside the first ask,
// so neither waits for the other. The engine keeps the answers to the ask until Redis has said which kind is in
// force. If it is another kind, the calls fail, and their turns are returned.

// keptAnswers is a batch whose answers are kept.
type keptAnswers struct {
	batch  *Batch
	result Result
	at     time.Time
	early  time.Duration
}

// otherKind returns the error of calls that need a limit of another kind than the one in force under its name.
// It returns nil if they need no such limit.
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

// otherThan does the same for some limits.
func (e *Engine) otherThan(limits ...*wire.Limit) error {
	for _, l := range limits {
		if other := l.Name.Other.Load(); other != nil && e.cfg.Errors.Kind != nil {
			return e.cfg.Errors.Kind(l.Name, other)
		}
	}
	return nil
}

// refuseOtherKind fails the waiting calls of a line whose limit is of another kind than the one in force.
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

// keep keeps the answers to a batch until Redis has said so. Meanwhile other batches may ask. If the heartbeat beside
// the first ask has failed, the next one goes at once.
func (e *Engine) keep(b *Batch, r *Result, at time.Time, early time.Duration, now time.Time) {
	if !e.underWay {
		e.hurry(now)
	}
	e.busy--
	b.kept, b.driven = true, false
	e.traffic.kept = append(e.traffic.kept, &keptAnswers{b, *r, at, early})
}

// takeKept handles the kept answers of the batches whose kinds of limits are known by now. With an error, it
// fails all batches whose answers are kept.
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

// heardNoKinds handles a heartbeat that has failed. If Redis refuses heartbeats, the process does not wait to
// learn which kinds are in force.
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

// rather reports whether the heartbeat tells Redis of name in place of other, where both are in use and share
// keys. Among limits of the same kind, the slower one comes first. Among two kinds, the kind in force comes
// first. Otherwise the name that was used first comes first.
func (e *Engine) rather(name, other *wire.Name) bool {
	if name.Kind == other.Kind && name.Pace != other.Pace {
		return name.Pace < other.Pace
	}
	if fits := name.Other.Load() == nil; fits != (other.Other.Load() == nil) {
		return fits
	}
	return e.names[name].order < e.names[other].order
}

// kindOf records which kind of limit is in force under a name of this process. The heartbeat told Redis of this
// name, or of another name with the same keys.
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
		if told.Name.Kind != name.Kind { // the next heartbeat has to tell Redis of this name
			u.stale = now
			e.hurry(now)
		}
		return
	}
	name.Other.Store(&ruling)
	name.Sure.Store(true)
	e.strange = true
	if u.ruling == ruling.Limit+ruling.Kind {
		return
	}
	u.ruling = ruling.Limit + ruling.Kind
	for l := range u.limits.all {
		e.tell(Event{What: Unfit, Limit: l, Text: ruling.Limit, N: ruling.Protocol})
		return
	}
}
