package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file has the names that the process uses, and what heartbeats tell Redis of them.

// nameUse is the use of a name, and what is known of it.
type nameUse struct {
	used   time.Time // when a call last joined
	limits recent    // the limits that calls have needed, and when last
	ruling string    // the limit in force, by the last answer
	noted  time.Time // when it was last written into the index of names

	told   time.Time // when the last heartbeat with the name left; zero: there was no such heartbeat …
	report string    // … and what the process reported with it
	died   int64     // when a process had last died, in micros of Redis, by that heartbeat
	order  int64     // names that were used later have a higher one
	stale  time.Time // when its state was found to be old: the next heartbeat has to have the name
}

// useLimit notes that calls need a limit, and begins the heartbeats of the process.
func (e *Engine) useLimit(l *wire.Limit, now time.Time) {
	e.useName(l.Name, now).limits.use(l, now)
}

// mostUsed is how many limits of a name are remembered at least, the ones that calls needed last. There are at most
// twice as many.
const mostUsed = 1000

// recent are the limits that calls have needed last, and when.
type recent struct{ newer, older map[*wire.Limit]time.Time }

// use notes that a call needs a limit. A limit is forgotten after calls have needed mostUsed to 2*mostUsed
// others.
func (r *recent) use(l *wire.Limit, now time.Time) {
	if _, is := r.newer[l]; !is && len(r.newer) == mostUsed {
		r.newer, r.older = r.older, r.newer
		clear(r.newer)
	}
	if r.newer == nil {
		r.newer = map[*wire.Limit]time.Time{}
	}
	r.newer[l] = now
}

// last returns when a call last needed a limit.
func (r *recent) last(l *wire.Limit) time.Time {
	if at, is := r.newer[l]; is {
		return at
	}
	return r.older[l]
}

// all yields each of the limits once.
func (r *recent) all(yield func(*wire.Limit, time.Time) bool) {
	for l, at := range r.newer {
		if !yield(l, at) {
			return
		}
	}
	for l, at := range r.older {
		if _, is := r.newer[l]; !is && !yield(l, at) {
			return
		}
	}
}

// useName notes that calls need a name, and begins the heartbeats of the process.
func (e *Engine) useName(name *wire.Name, now time.Time) *nameUse {
	u := e.names[name]
	if u == nil {
		e.ordered++
		u = &nameUse{order: e.ordered}
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

// rules handles what Redis answers about a name of a heartbeat.
func (e *Engine) rules(told *wire.Told, rank int64, ruling wire.Ruling, left, now time.Time) {
	name := told.Name
	for other, u := range e.names {
		if other.Keys[0] != name.Keys[0] {
			continue
		}
		fewer := e.lowest == 0 && (u.told.IsZero() || other.Fewer.Load() && left.Sub(u.told) < every/2) // the processes of a fleet begin at the same time
		if other.Fewer.Store(fewer); fewer {
			u.stale = now
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
		for _, l := range e.inUse {
			if l.need.any(func(l *wire.Limit) bool { return l.Name.Keys[0] == name.Keys[0] }) {
				l.refresh(-1, 1)
			}
		}
	}
}

// compare reports which limit is in force, with the first heartbeat and whenever that changes.
func (e *Engine) compare(u *nameUse, ruling string) {
	if ruling == u.ruling {
		return
	}
	u.ruling = ruling
	for l := range u.limits.all {
		e.tell(Event{What: Rules, Limit: l, Text: ruling})
		return
	}
}

// namesInUse returns the names that calls have needed recently. gone are the names that no call needs any more.
func (e *Engine) namesInUse(now time.Time) (names, gone []*wire.Name) {
	for _, l := range e.inUse {
		for _, p := range l.parts {
			if !p.Limit.Name.Ended.Load() {
				e.useLimit(p.Limit, now)
			}
		}
	}
	for c := range e.holders {
		c.Need.each(func(p Part) { e.useName(p.Limit.Name, now) })
	}
	for limit, l := range e.leases { // their calls need no batch
		if drawn, _ := l.has(); !limit.Name.Ended.Load() && e.names[limit.Name] != nil && drawn.After(e.names[limit.Name].limits.last(limit)) {
			e.useLimit(limit, now)
		}
	}
	slowest := map[string]*wire.Name{} // by key, the name that a heartbeat has: two limiters may use the same keys
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
	e.inOrder(gone)
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

// inOrder sorts names by their first use.
func (e *Engine) inOrder(names []*wire.Name) {
	slices.SortFunc(names, func(a, b *wire.Name) int { return cmp.Compare(e.names[a].order, e.names[b].order) })
}

// toTell returns what a heartbeat tells Redis of names: what is new, or was not sent for some time. ends says
// that the use of these names has ended.
func (e *Engine) toTell(names []*wire.Name, ends bool, now time.Time) (told []wire.Told) {
	if len(names) == 0 {
		return nil
	}
	reports := e.reports(now)
	for _, name := range names {
		report := reports[name.Keys[0]]
		report.Ended, report.Closed = ends, ends && (e.closed || name.Ended.Load())
		text := report.Text()
		// Where Redis has lost all of its data, the names whose kinds were in force go first.
		other := name.Other.Load()
		waits := !ends && other != nil && now.Sub(e.lost) < e.cfg.Dead
		if u := e.names[name]; u != nil && !waits && (ends || other != nil && other.Protocol > 0 || u.stale.After(u.told) || text != u.report || u.died < e.died || now.Sub(u.told) >= retold) {
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
		b.failed = func(time.Time, error) {} // the next heartbeat tries again
		e.send(b, now)
	}
}
