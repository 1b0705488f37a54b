package engine

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	every  = time.Second      // about: a heartbeat
	unused = 10 * time.Second // after which a name needs none

	// retold is how often Redis is told of a name of which there is nothing new, and mostNames how
	// many a message has: no script is to take a millisecond.
	retold    = 5 * time.Second
	mostNames = 96

	// trusted is for how long after a heartbeat that was answered the process surely counts as alive.
	trusted = 1500 * time.Millisecond

	// search is for how long calls that wait for slots ask with each heartbeat after a loss of data. No
	// slot is given for the first three seconds, and then there may be no call whose end tells others.
	search = 6 * time.Second

	kept     = time.Minute      // for how long a turn that nobody waits for is kept after it is over
	renoted  = 10 * time.Minute // how often a name is noted again, so that the index outlives a Redis
	mostNote = 256              // names that are noted with one command
)

// heart is the heartbeats of the process, and what it knows by them.
//
// A heartbeat is a message or several, one after the other: the first says that the process lives, and
// all of them tell of names. Then come what else is done once a second. The alarm is set, or a message
// is under way, for as long as there is a name.
type heart struct {
	names    map[*wire.Name]*nameUse
	lifeKeys []string // of the heartbeat: the same for all names
	alarm    alarm
	beating  bool // a heartbeat is under way, or its alarm is set
	underWay bool // … the former
	soon     bool // another one is to follow at once

	run       string    // of the server
	known     bool      // Redis has answered a heartbeat …
	answered  time.Time // … that left then
	knownAt   int64     // since when Redis knows the process, at the latest, in micros of Redis
	died      int64     // when a process died last, in micros of Redis
	lost      time.Time // when the server was found to have lost its data
	searching time.Time // until when calls that wait for slots ask with each heartbeat
	ordered   int64     // names that were in use, ever
	failures  int       // heartbeats that failed, in a row
	signedOff bool      // the last heartbeat has been sent
}

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

// useNames notes that calls need the limits of some parts, and begins to tell Redis that the process
// lives.
func (e *Engine) useNames(parts []Part, now time.Time) {
	for _, p := range parts {
		e.useName(p.Limit.Name, now).limits[p.Limit] = now
	}
}

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

// hurry lets the next heartbeat come at once.
func (e *Engine) hurry(now time.Time) {
	switch {
	case e.closed:
	case e.underWay:
		e.soon = true
	default:
		e.beating = true
		e.alarms.set(&e.heart.alarm, now)
	}
}

// beat is one heartbeat: the first message says that the process lives, for all of its names. It also
// has the first of what there is to tell of them; more messages have the rest.
func (e *Engine) beat(now time.Time) {
	if len(e.lines)+len(e.leases)+len(e.holders)+len(e.names) == 0 {
		clear(e.audits) // others let the slots go of a process that has signed off
		e.released, e.beating = nil, false
		return
	}
	names, gone := e.namesInUse(now)
	e.underWay, e.soon = true, false
	e.message(names, slices.Concat(e.toTell(gone, true, now), e.toTell(names, false, now)), true, now)
}

// message sends the next message of a heartbeat, of the first of what there is to tell.
func (e *Engine) message(names []*wire.Name, told []wire.Told, first bool, now time.Time) {
	some := told[:min(len(told), mostNames)]
	b := e.heartbeat(some, len(names) == 0 && len(some) == len(told))
	if b == nil {
		e.beaten(names, now)
		return
	}
	b.answered = func(now time.Time, r *Result) {
		n, died := e.heardBeat(b, r, now)
		told := told[n:]
		if died && first { // then limits of the dead may be in force
			others := slices.DeleteFunc(slices.Clone(names), func(name *wire.Name) bool {
				return slices.ContainsFunc(told, func(t wire.Told) bool { return t.Name == name })
			})
			told = slices.Concat(told, e.toTell(others, false, now))
		}
		if len(told) == 0 || n == 0 && len(some) > 0 {
			e.beaten(names, now)
		} else {
			e.message(names, told, false, now)
		}
	}
	b.failed = func(now time.Time, err error) {
		if errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, fault.ErrMigrating) {
			e.unmet = true
		}
		e.failures++
		e.rest(now)
		e.heardNoKinds(err, now)
	}
	e.send(b, now)
}

// heartbeat returns a message; nil: Redis need not be told. ends says that the process needs no name
// any more.
func (e *Engine) heartbeat(told []wire.Told, ends bool) *Batch {
	if e.lifeKeys == nil || ends && !e.known {
		return nil
	}
	b := e.batch(Beat)
	b.Heartbeat = wire.Heartbeat{Channel: e.cfg.Channel, Process: e.cfg.Process, Dead: e.cfg.Dead, Life: e.lifeKeys, Ends: ends, Names: told}
	b.ranks = make([]int64, len(told))
	for i := range told {
		b.ranks[i] = told[i].Name.Rank.Load()
	}
	return b
}

// heardBeat takes in the answer to a message. It returns of how many names Redis took it in, and
// whether a process has died.
func (e *Engine) heardBeat(b *Batch, r *Result, now time.Time) (n int, died bool) {
	p, left := &r.Pulse, b.Call.Now
	died = p.Died > e.died
	e.died = max(e.died, p.Died)
	e.learn(p, left, now)
	for i, ruling := range p.Names {
		e.rules(&b.Heartbeat.Names[i], b.ranks[i], ruling, left, now)
	}
	if b.Heartbeat.Ends { // Redis counts the process as one that has ended
		e.answered = time.Time{}
		if e.known = len(e.names) > 0; e.known { // a call came meanwhile, and others may have had its slots
			e.hurry(now)
		}
	}
	return len(p.Names), died
}

// learn takes in what a heartbeat that left at a moment says of the process and the server. Where
// Redis does not know a process that it knew, its data was lost.
func (e *Engine) learn(p *wire.Pulse, left, now time.Time) {
	other := e.run != "" && p.Run != "" && p.Run != e.run
	if p.Run != "" {
		e.run = p.Run
	}
	// Two heartbeats may be under way at once, and answered in any order.
	forgot := e.known && !p.Known && (p.Micros > e.knownAt || other)
	if forgot {
		e.lost = now
	}
	absent := e.known && (p.Dead && p.Micros > e.knownAt || left.Sub(e.answered) >= e.cfg.Dead)
	if other || forgot || absent {
		for name, u := range e.names {
			u.stale = now
			if other || forgot {
				u.noted = time.Time{}
			}
			if forgot || absent { // another kind may be in force by now
				name.Sure.Store(false)
			}
		}
		e.hurry(now)
	}
	if other || forgot || absent {
		e.searching = now.Add(search)
		for c := range e.holders {
			c.slots.unsure = true
		}
	}
	if !e.known || forgot || p.Micros < e.knownAt {
		e.knownAt = p.Micros
	}
	e.known, e.answered = true, later(e.answered, left)
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

// beaten does what follows a heartbeat that was answered.
func (e *Engine) beaten(names []*wire.Name, now time.Time) {
	e.failures = 0
	e.takeKept(nil, now)
	e.note(names, now)
	e.checkSlots(now)
	e.rest(now)
}

// rest does what is done once a second, and waits for the next heartbeat.
func (e *Engine) rest(now time.Time) {
	for _, l := range e.lines {
		l.expire(now, kept)
	}
	if now.Before(e.searching) {
		e.refreshLines(func(l *line) bool { return l.slots != nil })
	}
	e.tidyLeases(now, false)
	e.forgetMoves(now)
	e.underWay = false
	if e.soon && !e.closed {
		e.alarms.set(&e.heart.alarm, now)
	} else if !e.closed {
		e.alarms.set(&e.heart.alarm, now.Add(time.Duration((0.75+e.cfg.Random()/2)*float64(every))))
	}
}

// namesInUse are the names that calls have needed of late; gone are those that none needs any more.
func (e *Engine) namesInUse(now time.Time) (names, gone []*wire.Name) {
	for _, l := range e.lines {
		for _, p := range l.parts {
			if !p.Limit.Name.Ended.Load() {
				e.useName(p.Limit.Name, now).limits[p.Limit] = now
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

// SignOff lets the process end in Redis, once it is closed and no batch is under way, and reports
// whether all of that is done. Where it fails, Redis finds out later.
func (e *Engine) SignOff(now time.Time) (done bool) {
	if e.busy+e.sent+len(e.traffic.kept) > 0 {
		return false
	}
	if e.signedOff || e.outage != nil || e.unmet {
		return true
	}
	e.signedOff = true
	var names []*wire.Name
	for name, u := range e.names {
		if !u.told.IsZero() {
			names = append(names, name)
		}
	}
	e.underWay = true
	e.message(nil, e.toTell(names, true, now), true, now)
	return e.sent == 0
}
