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
)

// pulse is the heartbeat of this process under a name.
type pulse struct {
	used     time.Time                 // when a call joined last
	ruling   string                    // the limit in force, as was heard last
	noted    time.Time                 // in the index of names
	limits   map[*wire.Limit]time.Time // that calls have needed, and when last
	known    bool                      // Redis has answered …
	answered time.Time                 // … a heartbeat that left then
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
		p = &pulse{limits: map[*wire.Limit]time.Time{}}
		a.names[name] = p
		a.hurry()
	}
	p.used = now
	return now.Sub(p.answered) <= trusted
}

// beats tells it about every second, for as long as somebody needs it.
func (a *Asker) beats() {
	for {
		names, gone := a.inUse()
		a.signOff(gone)
		for _, name := range names {
			if a.beatOnce(name) == nil {
				a.note(name)
			}
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
			if pulse := a.names[p.Limit.Name]; pulse != nil {
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
	for name, pulse := range a.names {
		if time.Since(pulse.used) >= idle {
			gone = append(gone, name)
		} else if other := slowest[name.Keys[0]]; other == nil || name.Pace < other.Pace {
			slowest[name.Keys[0]] = name
		}
	}
	gone = slices.DeleteFunc(gone, func(name *wire.Name) bool {
		mute := !a.names[name].known || slowest[name.Keys[0]] != nil
		if mute {
			delete(a.names, name)
		}
		return mute
	})
	return slices.Collect(maps.Values(slowest)), gone
}

// signOff tells Redis that the process needs names no more. Where that fails, Redis finds out
// later.
func (a *Asker) signOff(names []*wire.Name) {
	for _, name := range names {
		if !a.unmet.Load() {
			if err := wire.SignOff(context.Background(), a.heartbeat(name, time.Now()), name); errors.Is(err, fault.ErrUnavailable) {
				a.unmet.Store(true)
			}
		}
		a.lock()
		if pulse := a.names[name]; pulse != nil && time.Since(pulse.used) >= idle {
			delete(a.names, name)
		} else if pulse != nil { // a call came meanwhile, and others may have had its slots
			pulse.answered = time.Time{}
			a.hurry()
		}
		a.mu.Unlock()
	}
}

func (a *Asker) heartbeat(name *wire.Name, now time.Time) wire.Heartbeat {
	return wire.Heartbeat{Client: a.cfg.Client, Channel: a.cfg.Channel, Process: a.process, Dead: a.cfg.Dead, Report: a.report(name, now)}
}

// known are the names under which Redis knows the process.
func (a *Asker) known() (names []*wire.Name) {
	a.lock()
	defer a.mu.Unlock()
	if a.away != nil {
		return nil
	}
	for name, pulse := range a.names {
		if pulse.known {
			names = append(names, name)
		}
	}
	return names
}

// beatOnce is one heartbeat under a name. Where Redis does not know a process that it knew,
// its data was lost.
func (a *Asker) beatOnce(name *wire.Name) error {
	left, rank := time.Now(), name.Rank.Load()
	p, err := wire.Beat(context.Background(), a.heartbeat(name, left), name)
	if err != nil {
		if errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, fault.ErrMigrating) {
			a.unmet.Store(true)
		}
		return err
	}
	// Calls of a slow limit ask too rarely to know the clocks by.
	a.clock.arrival(p.Micros, 0, left, time.Now())
	a.lock()
	defer a.mu.Unlock()
	lost := a.run != "" && p.Run != "" && p.Run != a.run
	if p.Run != "" {
		a.run = p.Run
	}
	for other, pulse := range a.names {
		if other.Keys[0] != name.Keys[0] {
			continue
		}
		pulse.compare(a, other, p.Limit)
		if pulse.known && !p.Known {
			a.lost = time.Now()
			pulse.noted = time.Time{}
		}
		lost = lost || pulse.known && (!p.Known || left.Sub(pulse.answered) >= a.cfg.Dead)
		pulse.known, pulse.answered = true, left
		other.Alive.Store(name.Alive.Load())
	}
	if lost {
		a.searching = time.Now().Add(search)
	}
	for s := range a.slots {
		if s.at(name.Keys[0]) {
			s.unsure = s.unsure || lost
		}
	}
	if name.Rank.Load() > rank { // another limit is in force: forecasts are wrong
		a.refreshAll(func(k *kind) bool {
			return slices.ContainsFunc(k.parts, func(p Part) bool { return p.Limit.Name.Keys[0] == name.Keys[0] })
		})
	}
	return nil
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
	maps.DeleteFunc(a.voided, func(_ string, v voiding) bool { return now.Sub(v.heard) > overtaken })
	a.kick()
}

// resting ends the heartbeat if nobody needs it.
func (a *Asker) resting() bool {
	a.lock()
	defer a.mu.Unlock()
	if len(a.kinds)+len(a.leases)+len(a.slots)+len(a.names) > 0 {
		return false
	}
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
