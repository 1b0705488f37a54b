package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	every  = time.Second      // about: the time between two heartbeats
	unused = 10 * time.Second // after which a name without calls needs no heartbeats

	// retold is how often a heartbeat has a name of which there is nothing new. mostNames is how many names a
	// message has. It is as many as beat.lua handles (WORK), because no script may take a millisecond.
	retold    = 5 * time.Second
	mostNames = 96

	// trusted is how long after an answered heartbeat has left the process surely counts as alive.
	trusted = 1500 * time.Millisecond

	// search is how long calls that wait for slots ask with each heartbeat after a loss of data. Redis gives no
	// slot for the first three seconds. After that, there may be no call whose end would wake them.
	search = 6 * time.Second

	kept     = time.Minute      // how long a turn is kept after its end while no caller waits for it
	renoted  = 10 * time.Minute // how often a name is written again, as the index may be lost with a Redis
	mostNote = 256              // names that one command writes
)

// heart is the heartbeats of the process, and what it knows from them.
//
// A heartbeat is a message or several, one after the other. Each message says that the process lives, for all
// of its names, and tells more of some of them. The next message waits for the answer to the one before. So a
// process lives on if each answer takes less time than Config.Dead. Script beat.lua finds dead processes, and
// slots.lua frees their slots. After the messages comes what else is done once a second. For as long as there
// is a name, the alarm is set, or a message is under way.
type heart struct {
	names    map[*wire.Name]*nameUse
	lifeKeys []string // the keys of the heartbeat: the same for all names
	alarm    alarm
	replan   alarm // when the plans are looked up of limits at which calls wait
	beating  bool  // a heartbeat is under way, or its alarm is set
	underWay bool  // a heartbeat is under way
	soon     bool  // another one has to follow at once

	run       string    // the run ID of the server
	replied   time.Time // when the server last replied
	doubtful  time.Time // since when another server may answer; zero: the same one answers, as far as is known
	known     bool      // Redis has answered a heartbeat …
	answered  time.Time // … and this is when the last answered one left
	knownAt   int64     // since when Redis knows the process, at the latest, in micros of Redis
	died      int64     // when a process last died, in micros of Redis
	lost      time.Time // when the process found that the server had lost its data
	searching time.Time // until when calls that wait for slots ask with each heartbeat
	ordered   int64     // the number of names that were ever in use
	failures  int       // the number of heartbeats that failed in a row
	signedOff bool      // the last heartbeat has been sent
	lowest    int       // the lowest protocol of the living processes of the group; 0: it is not known
	spoken    int       // the same, or what it was when it was last known
}

// Speaks reports whether all living processes of the group speak a protocol. Only then
// the process may use what this protocol has added, because other processes would misunderstand it.
func (e *Engine) Speaks(protocol int) bool { return e.heart.lowest >= protocol }

// hurry makes the next heartbeat go at once.
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

// beat sends a heartbeat. Its first message has the first part of what there is to tell about names, and
// further messages have the rest.
func (e *Engine) beat(now time.Time) {
	if len(e.lines)+len(e.leases)+len(e.holders)+len(e.names) == 0 {
		clear(e.audits) // others free the slots of a process that has signed off
		e.released, e.beating = nil, false
		return
	}
	names, gone := e.namesInUse(now)
	e.underWay, e.soon = true, false
	e.message(names, slices.Concat(e.toTell(gone, true, now), e.toTell(names, false, now)), true, now)
}

// message sends the next message of a heartbeat, with as much of told as one message has.
func (e *Engine) message(names []*wire.Name, told []wire.Told, first bool, now time.Time) {
	some := told[:min(len(told), mostNames)]
	b := e.heartbeat(some, len(names) == 0 && len(some) == len(told))
	if b == nil {
		e.beaten(names, now)
		return
	}
	b.answered = func(now time.Time, r *Result) {
		n, died := e.heardBeat(b, r, now)
		e.takeKept(nil, now) // after a further message, their turns would be too late
		told := told[n:]
		if died && first { // limits of dead processes may have been in force
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

// heartbeat returns a message, or nil if Redis needs no message. ends says that the process needs no name any
// more.
func (e *Engine) heartbeat(told []wire.Told, ends bool) *Batch {
	if e.lifeKeys == nil || ends && !e.known {
		return nil
	}
	b := e.batch(Beat)
	b.Heartbeat = wire.Heartbeat{
		Channel: e.cfg.Channel, Process: e.cfg.Process, Dead: e.cfg.Dead, Life: e.lifeKeys, Ends: ends, Protocol: e.cfg.Protocol, Names: told,
	}
	b.ranks = make([]int64, len(told))
	for i := range told {
		b.ranks[i] = told[i].Name.Rank.Load()
	}
	return b
}

// heardBeat handles the answer to a message. It returns how many names of the message Redis has handled, and
// whether a process has died.
func (e *Engine) heardBeat(b *Batch, r *Result, now time.Time) (n int, died bool) {
	p, left := &r.Pulse, b.Call.Now
	died = p.Died > e.died
	e.died = max(e.died, p.Died)
	e.learn(p, left, now)
	for i, ruling := range p.Names {
		e.rules(&b.Heartbeat.Names[i], b.ranks[i], ruling, left, now)
	}
	if b.Heartbeat.Ends { // Redis counts the process as ended
		e.answered = time.Time{}
		e.trustLeases()
		if e.known = len(e.names) > 0; e.known { // a call came meanwhile, and others may have its slots
			e.hurry(now)
		}
	}
	return len(p.Names), died
}

// learn records what the answer to a heartbeat says of the process and the server. left is when the heartbeat
// was sent. If Redis does not know a process that it knew before, its data was lost.
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
	if forgot || other && e.known { // another server may lack the latest data
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
	if e.lowest = p.Lowest; p.Lowest > 0 && p.Lowest != e.spoken {
		e.spoken = p.Lowest
		e.tell(Event{What: Mixed, N: p.Lowest})
	}
	e.trustLeases()
}

// doubtfulAfter is how long Redis must have been silent before another server may answer although no request of
// this process has failed. The script takes 5 µs to read the run ID, so asks do not always have it read.
const doubtfulAfter = 100 * time.Millisecond

// server returns what an ask that is sent now says of the server: its run ID. If another server may answer,
// wire.AnyRun comes before it, as that server may lack the latest data.
func (e *Engine) server(now time.Time) string {
	if e.known && e.run == "" { // the process is not allowed to read it
		return ""
	}
	if !e.known || !e.doubtful.IsZero() || now.Sub(e.replied) > doubtfulAfter {
		return wire.AnyRun + e.run
	}
	return e.run
}

// answeredBy handles the run ID that a limit has in Redis. If it is not the known one, another process has
// found another server. Empty: it is not known.
func (e *Engine) answeredBy(run string, now time.Time) {
	if run != "" && e.run != "" && run != e.run && e.doubtful.IsZero() {
		e.doubtful = now
		e.hurry(now)
	}
}

// Unsubscribed notes that the connection on which the process receives news has broken.
func (e *Engine) Unsubscribed(now time.Time) { e.doubtful = now }

// beaten does what follows an answered heartbeat.
func (e *Engine) beaten(names []*wire.Name, now time.Time) {
	e.failures = 0
	if len(e.traffic.kept) > 0 {
		e.hurry(now)
	}
	e.note(names, now)
	e.auditSlots(now)
	e.rest(now)
}

// rest does what is done once a second, and sets the alarm for the next heartbeat.
func (e *Engine) rest(now time.Time) {
	for _, l := range e.inUse {
		l.expire(now, kept)
	}
	if now.Before(e.searching) && !e.soon { // further messages follow at once
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

// Unanswered reports whether a batch is under way, waits to be sent again, or has answers that are kept.
func (e *Engine) Unanswered() bool { return e.busy+e.sent+len(e.traffic.kept) > 0 }

// SignOff tells Redis that the process ends, once the engine is closed and no batch is under way. It reports
// whether all of that is done. If the message fails, Redis finds out later.
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

// ensureAlive makes a heartbeat go before a batch that asks for slots, if the last answered heartbeat is too
// old. A process that soon counts as dead must not get slots.
func (e *Engine) ensureAlive(b *Batch, now time.Time) {
	for _, l := range b.limits {
		if l.HasSlots() {
			e.auditOf(l, now)
		}
	}
	e.unmet = e.unmet || now.Sub(e.answered) > trusted
}

// meet makes a heartbeat go before the batches that follow a failure. Its answer shows whether another server
// answers now, which may lack data of the server before. It is one script call, however many names the process
// uses.
func (e *Engine) meet(now time.Time) {
	b := e.heartbeat(nil, false)
	if e.unmet = false; b == nil {
		return
	}
	e.gate = b
	e.opens(b, func(r *Result, now time.Time) { e.heardBeat(b, r, now) })
	e.send(b, now)
}
