package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file is the names that the process uses, and which kind of limit is in force under each.

// nameUse is the use of a name, and what was told of it.
type nameUse struct {
	used   time.Time                 // when a call joined last
	limits map[*wire.Limit]time.Time // that calls have needed, and when last
	ruling string                    // the limit in force, as was heard last
	noted  time.Time                 // in the index of names

	told   time.Time // when Redis was told of the name last; zero: never …
	report string    // … and what the process told of itself then
	died   int64     // when a process had died last, in micros of Redis, as Redis looked at the name
	order  int64     // names that were used later have a higher one
	stale  time.Time // when what is known of it was found to be old: Redis is to look at it again
}

// useLimit notes that calls need a limit, and begins to tell Redis that the process lives.
func (e *Engine) useLimit(l *wire.Limit, now time.Time) { e.useName(l.Name, now).limits[l] = now }

// useName notes that a name is in use.
func (e *Engine) useName(name *wire.Name, now time.Time) *nameUse {
	u := e.names[name]
	if u == nil {
		e.ordered++
		u = &nameUse{limits: map[*wire.Limit]time.Time{}, order: e.ordered}
		e.names[name] = u
		name.Sure.Store(false)
		name.Other.Store(nil)
		e.lifeKeys = name.Life
		e.hurry(now)
	}
	if u.used = now; !e.beating {
		e.hurry(now)
	}
	return u
}

// rules takes in what Redis says of a name that it was told of.
func (e *Engine) rules(told *wire.Told, rank int64, ruling wire.Ruling, left, now time.Time) {
	name := told.Name
	for other, u := range e.names {
		if other.Keys[0] != name.Keys[0] {
			continue
		}
		u.told, u.report, u.died = left, told.Report, e.died
		other.Alive.Store(name.Alive.Load())
		e.kindOf(other, told, ruling, now)
		switch {
		case other.Other.Load() != nil:
		case !told.Ends:
			e.compare(u, ruling.Limit)
		case now.Sub(u.used) >= unused:
			delete(e.names, other)
		default: // a call came meanwhile
			u.stale = now
			e.hurry(now)
		}
	}
	if !told.Ends && name.Rank.Load() > rank { // another limit is in force: forecasts are wrong
		for _, l := range e.lines {
			if l.need.any(func(l *wire.Limit) bool { return l.Name.Keys[0] == name.Keys[0] }) {
				l.refresh(-1, 1)
			}
		}
	}
}

// compare tells which limit is in force, with the first heartbeat and where that changes.
func (e *Engine) compare(u *nameUse, ruling string) {
	if ruling == u.ruling {
		return
	}
	u.ruling = ruling
	for l := range u.limits {
		e.tell(Event{What: Rules, Limit: l, Text: ruling})
		return
	}
}

// namesInUse are the names that calls have needed of late; gone are those that none needs any more.
func (e *Engine) namesInUse(now time.Time) (names, gone []*wire.Name) {
	for _, l := range e.lines {
		for _, p := range l.parts {
			if !p.Limit.Name.Ended.Load() {
				e.useLimit(p.Limit, now)
			}
		}
	}
	for c := range e.holders {
		c.Need.each(func(p Part) { e.useName(p.Limit.Name, now) })
	}
	slowest := map[string]*wire.Name{} // of those that share keys: two limiters of one name
	var unsure []*wire.Name
	for name, u := range e.names {
		switch other := slowest[name.Keys[0]]; {
		case now.Sub(u.used) >= unused:
			gone = append(gone, name)
			name.Sure.Store(false)
			continue
		case other == nil, e.rather(name, other):
			slowest[name.Keys[0]] = name
		}
		if !name.Sure.Load() {
			unsure = append(unsure, name)
		}
	}
	for _, name := range unsure {
		e.names[slowest[name.Keys[0]]].stale = now
	}
	gone = slices.DeleteFunc(gone, func(name *wire.Name) bool {
		mute := e.names[name].told.IsZero() || slowest[name.Keys[0]] != nil
		if mute {
			delete(e.names, name)
			name.Other.Store(nil)
		}
		return mute
	})
	return slices.SortedFunc(maps.Values(slowest), func(a, b *wire.Name) int { return cmp.Compare(a.Keys[0], b.Keys[0]) }), gone
}

// toTell is what there is to tell under names, whose use has ended or has not: what is new, or has not
// been told for some time.
func (e *Engine) toTell(names []*wire.Name, ends bool, now time.Time) (told []wire.Told) {
	if len(names) == 0 {
		return nil
	}
	reports := e.reports(now)
	for _, name := range names {
		report := reports[name.Keys[0]]
		report.Ended = ends
		text := report.Text()
		// Where all of its data was lost, Redis hears first of those whose kinds were in force.
		waits := !ends && name.Other.Load() != nil && now.Sub(e.lost) < e.cfg.Dead
		if u := e.names[name]; u != nil && !waits && (ends || u.stale.After(u.told) || text != u.report || u.died < e.died || now.Sub(u.told) >= retold) {
			told = append(told, wire.Told{Name: name, Ends: ends, Report: text})
		}
	}
	return told
}

// note writes names into the index, from time to time.
func (e *Engine) note(names []*wire.Name, now time.Time) {
	names = slices.DeleteFunc(slices.Clone(names), func(name *wire.Name) bool {
		u := e.names[name]
		return u == nil || name.Index == "" || now.Sub(u.noted) < renoted
	})
	for some := range slices.Chunk(names, mostNote) {
		b := e.batch(Register)
		b.Names = some
		b.answered = func(now time.Time, _ *Result) {
			for _, name := range some {
				if u := e.names[name]; u != nil {
					u.noted = now
				}
			}
		}
		b.failed = func(time.Time, error) {} // once more with the next heartbeat
		e.send(b, now)
	}
}

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

// rather reports which of two names in use that share keys Redis is told of: the slower one or, of two
// kinds of limit, the one in force, and if neither is known to be, the one that was used first.
func (e *Engine) rather(name, other *wire.Name) bool {
	if name.Kind == other.Kind {
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
