package asker

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// LeaseStats counts the permits that a process took ahead of its calls. Taken is the sum of
// the others and of those that it holds.
type LeaseStats struct {
	Taken    int64 // from the bucket
	Used     int64 // by calls
	Returned int64 // to the bucket
	Lapsed   int64 // nobody used them in time, or a pause took them
}

// lease is turns that a process has ahead of its calls of a cost at one limit: as many as
// they need in half of the time for which such turns last. It asks for more when a quarter
// of that is left. All of it is of the asker's lock.
type lease struct {
	need  Need
	turns []queue.Turn
	asked bool // for more

	demand float64   // calls per second of late
	count  int64     // calls …
	since  time.Time // … since then
	drawn  time.Time // the last one
	pause  *time.Timer
	stats  LeaseStats
}

const (
	// trusted is for how long after a heartbeat that was answered turns may be used that were
	// taken ahead: the others count on a dead process to use none.
	trusted = 1500 * time.Millisecond

	// Calls come in bursts: who had none for so many times the usual gap, and for that part of
	// the time for which turns last, gives back what it has, as long as nobody else has spent.
	longGap, longPart = 4, 8

	mostAhead = 5000 // calls: an item of a script may not have more than twice that
)

// lasting is for how long turns of a lease may be used: the bucket is never fuller than
// that lets it.
func lasting(l *wire.Limit) time.Duration {
	a, b := l.InForce()
	return min(l.Lease, time.Duration(a*b/2)*time.Microsecond)
}

// draw gives a call a turn that was taken ahead of it.
func (a *Asker) draw(need *Need, now time.Time) (t Turn, ok bool) {
	a.lock()
	defer a.mu.Unlock()
	l := a.leases[need.Part]
	if l == nil {
		l = &lease{need: Need{Part: need.Part}, since: now}
		a.leases[need.Part] = l
	}
	l.count++
	l.drawn = now
	if k := a.kinds[l.need.key()]; a.closed || need.Limit.Name.Other.Load() != nil || k != nil && k.queue.Waiting() > 0 || !a.lives(need.Limit.Name, now) {
		return Turn{}, false
	}
	for !ok && len(l.turns) > 0 {
		t, l.turns = l.turns[0], l.turns[1:]
		if ok = !now.After(t.Until.Add(-Tolerance)); ok {
			l.stats.Used += need.Cost
			t.Used = now
			t.Spend()
			a.used(&l.need, &t)
			a.names[need.Limit.Name].limits[need.Limit] = now
		} else {
			l.stats.Lapsed += need.Cost
		}
	}
	// A call that does not wait asks for itself alone.
	if (ok || need.Now) && !l.asked && l.wants(now) > 0 {
		l.asked = true
		a.wants(a.kind(&l.need))
		a.kick()
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

// leases reports whether its turns may be those of a lease.
func (k *kind) leases() bool { return k.need.leases() && !k.need.Now }

// loadAhead takes in what a kind asks for ahead of its calls, as far as permits are known to
// be there.
func (a *Asker) loadAhead(f *flight, k *kind, now time.Time) {
	l := a.leases[k.need.Part]
	if l == nil || !k.leases() || a.closed {
		return
	}
	lasts := lasting(k.need.Limit)
	n := min(l.wants(now), int(k.need.Limit.Stored(now, lasts)/k.need.Cost)-k.queue.Waiting())
	if l.asked = n > 0; l.asked {
		f.add(k, wire.Item{Count: n, Number: a.number.Add(int64(n)) - int64(n) + 1, Ahead: lasts}, nil)
		f.asks[len(f.asks)-1].lease = l
	}
}

// keep takes in what a lease has asked for.
func (l *lease) keep(t *queue.Turn) {
	l.turns = append(l.turns, *t)
	l.stats.Taken += l.need.Cost
}

// serve lets calls have turns that came while they waited for others of their own.
func (l *lease) serve(k *kind, now time.Time) {
	for len(l.turns) > 0 && k.queue.Waiting() > 0 {
		l.stats.Used += l.need.Cost
		k.queue.Give(&l.turns[0], now)
		l.turns = l.turns[1:]
	}
}

// gap is after how long without a call a burst is over.
func (l *lease) gap() time.Duration {
	usual := time.Duration(longGap / max(l.demand, 1e-9) * float64(time.Second))
	return max(usual, lasting(l.need.Limit)/longPart)
}

// watchFor looks for the end of a burst. The Asker must be locked.
func (a *Asker) watchFor(l *lease) {
	if len(l.turns) == 0 || a.closed {
		return
	}
	if l.pause == nil {
		l.pause = time.AfterFunc(l.gap(), func() { a.paused(l) })
	} else {
		l.pause.Reset(l.gap())
	}
}

// paused gives the turns of a lease back whose burst is over.
func (a *Asker) paused(l *lease) {
	a.lock()
	defer a.mu.Unlock()
	if len(l.turns) == 0 || a.closed {
		return
	}
	if rest := l.gap() - time.Since(l.drawn); rest > 0 {
		l.pause.Reset(rest)
		return
	}
	a.giveLast(l)
}

// giveLast gives back the turns of the last ask, as far as they were not used. The Asker must be
// locked.
func (a *Asker) giveLast(l *lease) {
	var first queue.Turn
	var permits int64
	for i := len(l.turns) - 1; i >= 0; i-- {
		if t := &l.turns[i]; (first.Ask == "" || t.Ask == first.Ask) && t.GoBack(l.need.Cost) {
			first, permits = *t, permits+l.need.Cost
			l.turns = slices.Delete(l.turns, i, i+1)
		}
	}
	if permits > 0 {
		a.busy.Go(func() { a.giveBack(l, first, permits) })
	}
}

// dropLeases lets go of turns that a pause has taken.
func (a *Asker) dropLeases(key string, void func(*queue.Turn) bool) {
	for part, l := range a.leases {
		if part.Limit.Keys[0] == key {
			had := len(l.turns)
			l.turns = slices.DeleteFunc(l.turns, func(t queue.Turn) bool { return void(&t) })
			l.stats.Lapsed += int64(had-len(l.turns)) * part.Cost
		}
	}
}

// tidyLeases gives turns back that nobody will use: those that are old, or all of them. It
// forgets leases that nobody needs. The Asker must be locked.
func (a *Asker) tidyLeases(now time.Time, all bool) {
	for part, l := range a.leases {
		if len(l.turns) > 0 && (all || now.Sub(l.since) > lasting(part.Limit)) {
			a.giveLast(l)
			l.stats.Lapsed += int64(len(l.turns)) * part.Cost // others have spent since
			l.turns = nil
		}
		if len(l.turns) == 0 && now.Sub(l.since) > part.Limit.Lease+idle {
			a.retired(part.Limit.Name).add(l.stats)
			delete(a.leases, part)
		}
	}
}

// giveBack gives turns back, from the first one on, and counts what became of them.
func (a *Asker) giveBack(l *lease, first queue.Turn, permits int64) {
	var went int64
	_ = a.onceOnly(context.Background(), []*wire.Limit{l.need.Limit}, func(c *wire.Call) (wire.Reply, error) {
		items := []wire.Left{{Turns: first.Ask, Cost: first.Permit - l.need.Cost}}
		reply, counts, err := wire.Leave(context.Background(), c, items)
		if err == nil {
			went = min(counts[0], permits)
		}
		return reply, err
	})
	a.lock()
	defer a.mu.Unlock()
	l.stats.Returned += went
	l.stats.Lapsed += permits - went
}

func (s *LeaseStats) add(o LeaseStats) {
	s.Taken, s.Used, s.Returned, s.Lapsed = s.Taken+o.Taken, s.Used+o.Used, s.Returned+o.Returned, s.Lapsed+o.Lapsed
}

// retired are the counts of leases of a name that are no more. The Asker must be locked.
func (a *Asker) retired(name *wire.Name) *LeaseStats {
	if a.past[name] == nil {
		a.past[name] = &LeaseStats{}
	}
	return a.past[name]
}

// LeaseStats returns the counts of all limits of a name.
func (a *Asker) LeaseStats(name *wire.Name) LeaseStats {
	a.lock()
	defer a.mu.Unlock()
	sum := *a.retired(name)
	for part, l := range a.leases {
		if part.Limit.Name == name {
			sum.add(l.stats)
		}
	}
	return sum
}
