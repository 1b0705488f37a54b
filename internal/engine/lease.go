package engine

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// LeaseStats counts the permits that a process took ahead of its calls. Taken is the sum of the others
// and of those that it holds.
type LeaseStats struct {
	Taken    int64 // from the bucket
	Used     int64 // by calls
	Returned int64 // to the bucket
	Lapsed   int64 // Nobody used them in time, or a pause took them.
}

// leaser is the leases of the process.
type leaser struct {
	leases map[Part]*lease
	past   map[*wire.Name]*LeaseStats // of leases that are no more
}

// lease is turns that a process has ahead of its calls of a cost at one limit: as many as they need in
// half of the time for which such turns last. It asks for more when a quarter of that is left.
type lease struct {
	need  Need
	turns []Turn
	asked bool // for more

	demand float64   // Calls per second of late.
	count  int64     // Calls …
	since  time.Time // … since then.
	drawn  time.Time // The last one.
	burst  alarm     // It looks whether a burst of calls is over.
	stats  LeaseStats
}

const (
	// Calls come in bursts. A process that had none for so many times the usual gap, and for that part of
	// the time for which turns last, gives back what it has, as long as nobody else has spent.
	longGap, longPart = 4, 8

	mostAhead = 5000 // calls: an item of a script may not have more than twice that
)

// lasting is for how long turns of a lease may be used: the bucket is never fuller than that lets it.
func lasting(l *wire.Limit) time.Duration {
	a, b := l.InForce()
	return min(l.Lease, time.Duration(a*b/2)*time.Microsecond)
}

// Draw gives a call a turn that was taken ahead of it.
func (e *Engine) Draw(now time.Time, need *Need) (t Turn, ok bool) {
	l := e.leases[need.Part]
	if l == nil {
		l = &lease{need: Need{Part: need.Part}, since: now}
		l.burst.of = l
		e.leases[need.Part] = l
	}
	l.count++
	l.drawn = now
	of := e.lines[l.need.key()]
	u := e.useName(need.Limit.Name, now)
	if e.closed || need.Limit.Name.Other.Load() != nil || of != nil && len(of.waiting) > 0 || now.Sub(e.answered) > trusted {
		return Turn{}, false
	}
	for !ok && len(l.turns) > 0 {
		t, l.turns = l.turns[0], l.turns[1:]
		if ok = !now.After(t.Until.Add(-Tolerance)); ok {
			l.stats.Used += need.Cost
			t.Used = now
			t.spend()
			u.limits[need.Limit] = now
		} else {
			l.stats.Lapsed += need.Cost
		}
	}
	// A call that does not wait asks for itself alone.
	if (ok || need.Now) && !l.asked && l.wants(now) > 0 {
		l.asked = true
		if of = e.lineOf(&l.need); !of.queued {
			e.queue.add(of)
		}
	}
	return t, ok
}

// wants is how many turns to take ahead now.
func (l *lease) wants(now time.Time) int {
	lasts := lasting(l.need.Limit)
	if passed := now.Sub(l.since); passed >= lasts/64 {
		l.demand += (float64(l.count)/passed.Seconds() - l.demand) * min(1, passed.Seconds()/lasts.Seconds())
		l.count, l.since = 0, now
	}
	want := math.Ceil(l.demand * lasts.Seconds() / 2)
	if float64(len(l.turns)) > want/4 {
		return 0
	}
	return min(int(want)-len(l.turns), mostAhead)
}

// leases reports whether turns of the line may be those of a lease.
func (l *line) leases() bool { return l.need.leases() && !l.need.Now }

// takeAhead takes in what a line asks for ahead of its calls, as far as permits are known to be there.
func (e *Engine) takeAhead(b *Batch, of *line, now time.Time) {
	l := e.leases[of.need.Part]
	if l == nil || !of.leases() || e.closed {
		return
	}
	lasts := lasting(of.need.Limit)
	n := min(l.wants(now), int(of.need.Limit.Stored(now, lasts)/of.need.Cost)-len(of.waiting))
	if l.asked = n > 0; l.asked {
		b.add(of, wire.Item{Count: n, Number: e.number + 1, Ahead: lasts}, nil)
		e.number += int64(n)
		b.asks[len(b.asks)-1].lease = l
	}
}

// keep takes in a turn that a lease has asked for.
func (l *lease) keep(t *Turn) {
	l.turns = append(l.turns, *t)
	l.stats.Taken += l.need.Cost
}

// serve lets calls have turns that came while they waited for others of their own.
func (l *lease) serve(of *line, now time.Time) {
	for len(l.turns) > 0 && len(of.waiting) > 0 {
		l.stats.Used += l.need.Cost
		of.give(&l.turns[0], now)
		l.turns = l.turns[1:]
	}
}

// gap is after how long without a call a burst is over.
func (l *lease) gap() time.Duration {
	usual := time.Duration(longGap / max(l.demand, 1e-9) * float64(time.Second))
	return max(usual, lasting(l.need.Limit)/longPart)
}

// watchBurst looks for the end of a burst.
func (e *Engine) watchBurst(l *lease, now time.Time) {
	if len(l.turns) > 0 && !e.closed {
		e.alarms.set(&l.burst, now.Add(l.gap()))
	}
}

// isDue gives the turns of a lease back whose burst is over.
func (l *lease) isDue(e *Engine, now time.Time) {
	if len(l.turns) == 0 || e.closed {
		return
	}
	if rest := l.gap() - now.Sub(l.drawn); rest > 0 {
		e.alarms.set(&l.burst, now.Add(rest))
		return
	}
	e.giveLast(l, now)
}

// giveLast gives back the turns of the last ask, as far as they were not used.
func (e *Engine) giveLast(l *lease, now time.Time) {
	var first Turn
	var permits int64
	for i := len(l.turns) - 1; i >= 0; i-- {
		if t := &l.turns[i]; (first.Ask == "" || t.Ask == first.Ask) && t.goBack(l.need.Cost) {
			first, permits = *t, permits+l.need.Cost
			l.turns = slices.Delete(l.turns, i, i+1)
		}
	}
	if permits == 0 {
		return
	}
	b := e.batch(Leave)
	b.Left = append(b.Left, wire.Left{Limit: b.at(l.need.Limit), Turns: first.Ask, Cost: first.Permit - l.need.Cost})
	b.answered = func(_ time.Time, r *Result) {
		went := min(r.Counts[0], permits)
		l.stats.Returned += went
		l.stats.Lapsed += permits - went
	}
	b.failed = func(time.Time, error) { l.stats.Lapsed += permits }
	e.once(b, now)
}

// dropLeases lets go of turns of the limit with a key that are void.
func (e *Engine) dropLeases(key string, void func(*Turn) bool) {
	for part, l := range e.leases {
		if part.Limit.Keys[0] == key {
			had := len(l.turns)
			l.turns = slices.DeleteFunc(l.turns, func(t Turn) bool { return void(&t) })
			l.stats.Lapsed += int64(had-len(l.turns)) * part.Cost
		}
	}
}

// tidyLeases gives turns back that nobody will use: those that are old, or all of them. It forgets
// leases that nobody needs.
func (e *Engine) tidyLeases(now time.Time, all bool) {
	for _, part := range slices.SortedFunc(maps.Keys(e.leases), Part.compare) {
		l := e.leases[part]
		if len(l.turns) > 0 && (all || now.Sub(l.since) > lasting(part.Limit)) {
			e.giveLast(l, now)
			l.stats.Lapsed += int64(len(l.turns)) * part.Cost // others have spent since
			l.turns = nil
		}
		if len(l.turns) == 0 && now.Sub(l.since) > part.Limit.Lease+unused {
			e.alarms.clear(&l.burst)
			e.retired(part.Limit.Name).add(l.stats)
			delete(e.leases, part)
		}
	}
}

func (s *LeaseStats) add(o LeaseStats) {
	s.Taken, s.Used, s.Returned, s.Lapsed = s.Taken+o.Taken, s.Used+o.Used, s.Returned+o.Returned, s.Lapsed+o.Lapsed
}

// retired are the counts of leases of a name that are no more.
func (e *Engine) retired(name *wire.Name) *LeaseStats {
	if e.past[name] == nil {
		e.past[name] = &LeaseStats{}
	}
	return e.past[name]
}

// LeaseStats returns the counts of all limits of a name.
func (e *Engine) LeaseStats(name *wire.Name) LeaseStats {
	sum := *e.retired(name)
	for part, l := range e.leases {
		if part.Limit.Name == name {
			sum.add(l.stats)
		}
	}
	return sum
}
