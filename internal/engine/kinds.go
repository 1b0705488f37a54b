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

// Below are the names that the process uses, and what heartbeats tell Redis of them.

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
