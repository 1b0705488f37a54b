package asker

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	every = time.Second      // about: a heartbeat
	idle  = 10 * time.Second // after which none is needed, if nobody waits

	// retold is how often Redis is told of a name of which there is nothing new, and mostNames how
	// many a message has: no script is to take a millisecond.
	retold    = 5 * time.Second
	mostNames = 96
)

// pulse is what this process tells under a name.
type pulse struct {
	used   time.Time                 // when a call joined last
	ruling string                    // the limit in force, as was heard last
	noted  time.Time                 // in the index of names
	limits map[*wire.Limit]time.Time // that calls have needed, and when last

	told   time.Time // when Redis was told of the name last; zero: never …
	report string    // … and what the process told of itself then
	died   int64     // when a process had died last, in micros of Redis, as Redis looked at the name
	order  int64     // names that were used later have a higher one
	stale  time.Time // when what is known of it was found to be old: Redis is to look at it again
}

// beat begins to tell Redis that the process lives, under the names of the limits that a call
// needs. The Asker must be locked.
func (a *Asker) beat(parts []Part, now time.Time) {
	for _, p := range parts {
		a.lives(p.Limit.Name, now)
		a.names[p.Limit.Name].limits[p.Limit] = now
	}
	if !a.beating {
		a.beating = true
		a.busy.Go(a.beats)
	}
}

// lives notes that a name is in use, and reports whether Redis knows for sure that the process
// lives. The Asker must be locked.
func (a *Asker) lives(name *wire.Name, now time.Time) bool {
	p := a.names[name]
	if p == nil {
		a.ordered++
		p = &pulse{limits: map[*wire.Limit]time.Time{}, order: a.ordered}
		a.names[name] = p
		name.Sure.Store(false)
		name.Other.Store(nil)
		a.lifeKeys = name.Life
		a.hurry()
	}
	p.used = now
	return now.Sub(a.answered) <= trusted
}

// beats tells it about every second, for as long as somebody needs it.
func (a *Asker) beats() {
	for {
		names, gone := a.inUse()
		err := a.tellOf(names, gone)
		if a.beaten(err); err == nil {
			a.note(names)
			a.checkSlots()
		}
		a.keepSlots()
		a.expire()
		timer := time.NewTimer(time.Duration((0.75 + rand.Float64()/2) * float64(every)))
		select {
		case <-timer.C:
		case <-a.soon:
			timer.Stop()
		case <-a.life.Done():
			timer.Stop()
			return
		}
		if a.resting() {
			return
		}
	}
}

// inUse are the names that calls have needed of late; gone are those that none needs any more.
func (a *Asker) inUse() (names, gone []*wire.Name) {
	a.lock()
	defer a.mu.Unlock()
	for _, k := range a.kinds {
		for _, p := range k.parts {
			if pulse := a.names[p.Limit.Name]; pulse != nil && !p.Limit.Name.Ended.Load() {
				pulse.used = time.Now()
				pulse.limits[p.Limit] = pulse.used
			}
		}
	}
	for s := range a.slots {
		for _, p := range s.need.parts() {
			a.lives(p.Limit.Name, time.Now())
		}
	}
	slowest := map[string]*wire.Name{} // of those that share keys: two limiters of one name
	var unsure []*wire.Name
	for name, pulse := range a.names {
		switch other := slowest[name.Keys[0]]; {
		case time.Since(pulse.used) >= idle:
			gone = append(gone, name)
			name.Sure.Store(false)
			continue
		case other == nil, a.rather(name, other):
			slowest[name.Keys[0]] = name
		}
		if !name.Sure.Load() {
			unsure = append(unsure, name)
		}
	}
	for _, name := range unsure {
		a.names[slowest[name.Keys[0]]].stale = time.Now()
	}
	gone = slices.DeleteFunc(gone, func(name *wire.Name) bool {
		mute := a.names[name].told.IsZero() || slowest[name.Keys[0]] != nil
		if mute {
			delete(a.names, name)
			name.Other.Store(nil)
		}
		return mute
	})
	return slices.Collect(maps.Values(slowest)), gone
}

// due is what there is to tell under names, whose use has ended or has not: what is new, or has
// not been told for some time.
func (a *Asker) due(names []*wire.Name, ends bool) (told []wire.Told) {
	now := time.Now()
	for _, name := range names {
		report := a.report(name, now)
		report.Ended = ends
		text := report.Text()
		a.lock()
		// Where all of its data was lost, Redis hears first of those whose kinds were in force.
		waits := !ends && name.Other.Load() != nil && now.Sub(a.lost) < a.cfg.Dead
		if p := a.names[name]; p != nil && !waits && (ends || p.stale.After(p.told) || text != p.report || p.died < a.died || now.Sub(p.told) >= retold) {
			told = append(told, wire.Told{Name: name, Ends: ends, Report: text})
		}
		a.mu.Unlock()
	}
	return told
}

// tellOf is one heartbeat: the first message says that the process lives, for all of its names. It
// also has the first of what there is to tell of them; more messages have the rest.
func (a *Asker) tellOf(names, gone []*wire.Name) error {
	told := slices.Concat(a.due(gone, true), a.due(names, false))
	for first := true; first || len(told) > 0; first = false {
		some := told[:min(len(told), mostNames)]
		n, died, err := a.tell1(some, len(names) == 0 && len(some) == len(told))
		if err != nil || n == 0 && len(some) > 0 {
			return err
		}
		if told = told[n:]; died && first { // then limits of the dead may be in force
			told = slices.Concat(told, a.due(slices.DeleteFunc(slices.Clone(names), func(name *wire.Name) bool {
				return slices.ContainsFunc(told, func(t wire.Told) bool { return t.Name == name })
			}), false))
		}
	}
	return nil
}

// tell1 sends one message of a heartbeat, and returns of how many names Redis took it in, and
// whether a process has died. Where Redis does not know a process that it knew, its data was lost.
func (a *Asker) tell1(told []wire.Told, ends bool) (n int, died bool, err error) {
	a.lock()
	h := wire.Heartbeat{Client: a.cfg.Client, Channel: a.cfg.Channel, Process: a.process, Dead: a.cfg.Dead, Life: a.lifeKeys, Ends: ends, Names: told}
	ends = ends && a.known
	a.mu.Unlock()
	if h.Life == nil || h.Ends && !ends {
		return 0, false, nil
	}
	left := time.Now()
	ranks := make([]int64, len(told))
	for i := range told {
		ranks[i] = told[i].Name.Rank.Load()
	}
	p, err := wire.Beat(context.Background(), &h)
	if err != nil {
		if errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, fault.ErrMigrating) {
			a.unmet.Store(true)
		}
		return 0, false, err
	}
	// Calls of a slow limit ask too rarely to know the clocks by.
	a.clock.arrival(p.Micros, 0, left, time.Now())
	a.lock()
	defer a.mu.Unlock()
	died = p.Died > a.died
	a.died = max(a.died, p.Died)
	a.learn(&p, left)
	for i, ruling := range p.Names {
		a.rules(&told[i], ranks[i], ruling, left)
	}
	if ends {
		a.ended()
	}
	return len(p.Names), died, nil
}

// learn takes in what a heartbeat that left at a moment says of the process and the server. The
// Asker must be locked.
func (a *Asker) learn(p *wire.Pulse, left time.Time) {
	other := a.run != "" && p.Run != "" && p.Run != a.run
	if p.Run != "" {
		a.run = p.Run
	}
	// Two heartbeats may be under way at once, and answered in any order.
	forgot := a.known && !p.Known && (p.Micros > a.knownAt || other)
	if forgot {
		a.lost = time.Now()
	}
	absent := a.known && (p.Dead && p.Micros > a.knownAt || left.Sub(a.answered) >= a.cfg.Dead)
	if other || forgot || absent {
		for name, pulse := range a.names {
			pulse.stale = time.Now()
			if other || forgot {
				pulse.noted = time.Time{}
			}
			if forgot || absent { // another kind may be in force by now
				name.Sure.Store(false)
			}
		}
		a.hurry()
	}
	if other || forgot || absent {
		a.searching = time.Now().Add(search)
		for s := range a.slots {
			s.unsure = true
		}
	}
	if !a.known || forgot || p.Micros < a.knownAt {
		a.knownAt = p.Micros
	}
	a.known, a.answered = true, later(a.answered, left)
}

// rules takes in what Redis says of a name that it was told of. The Asker must be locked.
func (a *Asker) rules(told *wire.Told, rank int64, ruling wire.Ruling, left time.Time) {
	name := told.Name
	for other, pulse := range a.names {
		if other.Keys[0] != name.Keys[0] {
			continue
		}
		pulse.told, pulse.report, pulse.died = left, told.Report, a.died
		other.Alive.Store(name.Alive.Load())
		a.kindOf(other, told, ruling)
		switch {
		case other.Other.Load() != nil:
		case !told.Ends:
			pulse.compare(a, other, ruling.Limit)
		case time.Since(pulse.used) >= idle:
			delete(a.names, other)
		default: // a call came meanwhile
			pulse.stale = time.Now()
			a.hurry()
		}
	}
	if !told.Ends && name.Rank.Load() > rank { // another limit is in force: forecasts are wrong
		a.refreshAll(func(k *kind) bool {
			return slices.ContainsFunc(k.parts, func(p Part) bool { return p.Limit.Name.Keys[0] == name.Keys[0] })
		})
	}
}

// ended notes that Redis counts the process as one that has ended. The Asker must be locked.
func (a *Asker) ended() {
	a.answered = time.Time{}
	a.known = len(a.names) > 0 // a call came meanwhile, and others may have had its slots
	if a.known {
		a.hurry()
	}
}

// retell lets the next heartbeat come at once, and tell of a name: another limit is in force there.
func (a *Asker) retell(key string) {
	a.lock()
	defer a.mu.Unlock()
	for name, pulse := range a.names {
		if name.Keys[0] == key {
			pulse.stale = time.Now()
			a.hurry()
		}
	}
}

// registered are the names under which Redis knows the process.
func (a *Asker) registered() (names []*wire.Name) {
	a.lock()
	defer a.mu.Unlock()
	for name, pulse := range a.names {
		if !pulse.told.IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// signOff tells Redis that the process has ended. Where that fails, Redis finds out later.
func (a *Asker) signOff() {
	a.lock()
	away := a.away != nil
	a.mu.Unlock()
	if !away && !a.unmet.Load() {
		_ = a.tellOf(nil, a.registered())
	}
}

// compare tells the watch which limit is in force, with the first heartbeat and where that changes.
// The Asker must be locked.
func (p *pulse) compare(a *Asker, name *wire.Name, ruling string) {
	if ruling == p.ruling {
		return
	}
	p.ruling = ruling
	for l := range p.limits {
		a.watch(Event{What: Rules, Limit: l, Text: ruling})
		return
	}
}

// search is for how long calls that wait for slots ask with each heartbeat after a loss of data. No
// slot is given for the first three seconds, and then there may be no call whose end tells others.
const search = 6 * time.Second

// kept is for how long a turn that nobody waits for is kept after it is over.
const kept = time.Minute

// expire forgets calls that are held and whose turns were over long ago.
func (a *Asker) expire() {
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	for _, k := range a.kinds {
		k.queue.Expire(now, kept)
		a.plan(k, a.clock.now(now), now)
	}
	if now.Before(a.searching) {
		a.refreshAll(func(k *kind) bool { return k.queue.Slots != nil })
	}
	a.tidyLeases(now, false)
	a.forgetMoves(now)
	a.kick()
}

// resting ends the heartbeat if nobody needs it.
func (a *Asker) resting() bool {
	a.lock()
	defer a.mu.Unlock()
	if len(a.kinds)+len(a.leases)+len(a.slots)+len(a.names) > 0 {
		return false
	}
	clear(a.audit) // others let the slots go of a process that has signed off
	a.over = nil
	a.beating = false
	return true
}

// hurry lets the next heartbeat come at once.
func (a *Asker) hurry() {
	select {
	case a.soon <- struct{}{}:
	default:
	}
}
