package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	every  = time.Second      // about: a heartbeat
	unused = 10 * time.Second // after which a name needs none

	// retold is how often Redis is told of a name of which there is nothing new, and mostNames how
	// many a message has, as many as beat.lua takes in (WORK): no script is to take a millisecond.
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
// A heartbeat is a message or several, one after the other. Each says that the process lives, for all of
// its names, and tells more of some of them. The next message waits for the answer to the one before, so
// a process lives on if each answer takes less time than Config.Dead. Script beat.lua finds the dead, and
// slots.lua frees their slots. After the messages comes what else is done once a second. The alarm is
// set, or a message is under way, for as long as there is a name.
type heart struct {
	names    map[*wire.Name]*nameUse
	lifeKeys []string // of the heartbeat: the same for all names
	alarm    alarm
	beating  bool // a heartbeat is under way, or its alarm is set
	underWay bool // … the former
	soon     bool // another one is to follow at once

	run       string    // of the server
	replied   time.Time // when it replied last
	doubtful  time.Time // since when another one may answer; zero: none does, as far as is known
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

// beat is one heartbeat. Its first message has the first of what there is to tell of names, and more
// messages have the rest.
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
		e.trustLeases()
		if e.known = len(e.names) > 0; e.known { // a call came meanwhile, and others may have had its slots
			e.hurry(now)
		}
	}
	return len(p.Names), died
}

// learn takes in what a heartbeat that left at a moment says of the process and the server. Where
// Redis does not know a process that it knew, its data was lost.
func (e *Engine) learn(p *wire.Pulse, left, now time.Time) {
	if !left.Before(e.doubtful) {
		e.doubtful = time.Time{}
	}
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
	e.trustLeases()
}

// doubtfulAfter is how long Redis must be silent for another server to answer now, although no request of this
// process has failed. To read the run ID costs the script 5 µs.
const doubtfulAfter = 100 * time.Millisecond

// server returns what an ask that is sent now tells of the server: its run ID, behind wire.AnyRun if another
// server may answer, as that one may lack the latest data.
func (e *Engine) server(now time.Time) string {
	if e.known && e.run == "" { // the process may not read it
		return ""
	}
	if !e.known || !e.doubtful.IsZero() || now.Sub(e.replied) > doubtfulAfter {
		return wire.AnyRun + e.run
	}
	return e.run
}

// answeredBy takes in the run ID that a limit has in Redis; "": not known. If it is another one, another
// process has found another server.
func (e *Engine) answeredBy(run string, now time.Time) {
	if run != "" && e.run != "" && run != e.run && e.doubtful.IsZero() {
		e.doubtful = now
		e.hurry(now)
	}
}

// Unsubscribed takes in that the connection has broken on which the process hears news.
func (e *Engine) Unsubscribed(now time.Time) { e.doubtful = now }

// beaten does what follows a heartbeat that was answered.
func (e *Engine) beaten(names []*wire.Name, now time.Time) {
	e.failures = 0
	e.takeKept(nil, now)
	e.note(names, now)
	e.auditSlots(now)
	e.rest(now)
}

// rest does what is done once a second, and waits for the next heartbeat.
func (e *Engine) rest(now time.Time) {
	for _, l := range e.inUse {
		l.expire(now, kept)
	}
	if now.Before(e.searching) {
		e.refreshLines(func(l *line) bool { return l.slots != nil })
	}
	e.tidyLeases(now, false)
	e.forgetMoves(now)
	e.askForPlans()
	e.underWay = false
	if e.soon && !e.closed {
		e.alarms.set(&e.heart.alarm, now)
	} else if !e.closed {
		e.alarms.set(&e.heart.alarm, now.Add(time.Duration((0.75+e.cfg.Random()/2)*float64(every))))
	}
}

// Unanswered reports whether a batch is under way, waits to be sent again, or has answers that are kept.
func (e *Engine) Unanswered() bool { return e.busy+e.sent+len(e.traffic.kept) > 0 }

// SignOff lets the process end in Redis, once it is closed and no batch is under way, and reports
// whether all of that is done. Where it fails, Redis finds out later.
func (e *Engine) SignOff(now time.Time) (done bool) {
	if e.Unanswered() {
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
	e.inOrder(names)
	e.underWay = true
	e.message(nil, e.toTell(names, true, now), true, now)
	return e.sent == 0
}

// ensureAlive makes a heartbeat go before a batch that asks for slots if the last answered one is too old:
// a process that soon counts as dead must not get slots.
func (e *Engine) ensureAlive(b *Batch, now time.Time) {
	for _, l := range b.limits {
		if l.HasSlots() {
			e.auditOf(l, now)
		}
	}
	e.unmet = e.unmet || now.Sub(e.answered) > trusted
}

// meet makes a heartbeat go before the batches that follow a failure. Its reply shows whether another
// server answers now, which may lack data of the one before. It is one script call, however many names
// the process uses.
func (e *Engine) meet(now time.Time) {
	b := e.heartbeat(nil, false)
	if e.unmet = false; b == nil {
		return
	}
	e.gate = b
	e.opens(b, func(r *Result, now time.Time) { e.heardBeat(b, r, now) })
	e.send(b, now)
}
