package engine

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// leaser is the leases of the process.
type leaser struct {
	leases map[*wire.Limit]*lease     // the leases in use
	past   map[*wire.Name]*LeaseStats // the counts of leases that were forgotten
	unlent *Batch                     // It returns permits of leases with the next Ready. Nil: no batch does.
	parts  []lent                     // what its items return
}

// lent is permits of a lease.
type lent struct {
	of      *lease
	permits int64
}

// lease is permits of a limit that a process has ahead of its calls. They are as many as its calls need in half
// of the time for which it may hold them. It asks for more when a quarter of them is left.
type lease struct {
	stock
	need   Need    // of the line that asks for more where no call does
	asking bool    // A batch asks for more.
	behind []*line // The lines whose calls wait: calls that come now must not pass them.
	burst  alarm   // It is set for the moment at which a burst of calls may be over.

	demand float64   // The permits per second that calls have needed recently.
	count  int64     // The permits that calls had used …
	since  time.Time // … when the demand was last computed.
	credit float64   // How many permits may still expire that were taken without a configured lease.
	lapsed int64     // How many permits had expired when the credit was last computed.
}

const (
	// Calls come in bursts. A burst is over when no call has come for longGap times the usual gap. The least
	// time is one longPart of the time for which permits may be held, or two round trips if they take longer.
	// Then the process returns what it has, if nobody else has spent since.
	longGap, longPart = 4, 8
)

// Brisk says when a process takes permits ahead of a limit that has no Lease: where its calls need Demand
// permits per second. It holds them for at most Lease, and for at most one briskFill of the time in which the
// bucket fills. It takes at most one briskStored of what is stored. When its calls end, the permits that it has
// are lost if others have spent since. So it takes at most one permit for each Used permits that its calls used
// recently, while there were calls.
type Brisk struct {
	Demand float64
	Lease  time.Duration
	Used   float64
}

var usualBrisk = Brisk{Demand: 3000, Lease: 50 * time.Millisecond, Used: 100}

const briskFill, briskStored, briskRecent = 64, 16, 10 * time.Second

// lasting is how long permits may be held: the Lease of the limit, but no longer than a part of the time in
// which the bucket fills.
func (e *Engine) lasting(l *wire.Limit) time.Duration {
	a, b := l.InForce()
	fill := time.Duration(min(a*b, 1e12)) * time.Microsecond
	if l.Lease == 0 {
		return min(e.cfg.Brisk.Lease, fill/briskFill)
	}
	return min(l.Lease, fill/2)
}

// Draw gives a call permits that were taken ahead of it.
func (e *Engine) Draw(now time.Time, need *Need) (t Turn, ok bool) {
	t, ok, few := need.draw(now)
	if few {
		e.askAhead(need.Limit, now)
	}
	return t, ok
}

// lend gives a call that joins permits that came meanwhile. If there are too few, calls that come later do not
// pass it.
func (e *Engine) lend(c *Call, now time.Time) bool {
	l := e.leases[c.Need.Limit]
	if l == nil || !c.Need.leases() {
		return false
	}
	t, ok := e.Draw(now, &c.Need)
	of := e.lineOf(&c.Need)
	if !ok {
		l.waits(of)
		return false
	}
	c.line, c.joined = of, now
	of.hand(c, &t, now)
	return true
}

// waits notes that calls of a line wait.
func (l *lease) waits(of *line) {
	if !slices.Contains(l.behind, of) {
		l.behind = append(l.behind, of)
	}
}

// passed notes that no call of a line waits any more.
func (l *lease) passed(of *line) {
	l.behind = slices.DeleteFunc(l.behind, func(o *line) bool { return o == of })
	l.open(len(l.behind) == 0)
}

// leases reports whether permits for calls of the line may be permits of a lease.
func (l *line) leases() bool { return l.need.leases() && !l.need.Now }

// leaseFor returns the lease of a limit. It returns nil where no permits are taken ahead.
func (e *Engine) leaseFor(limit *wire.Limit, now time.Time) *lease {
	if l := e.leases[limit]; l != nil {
		return l
	}
	demand, used := 0.0, limit.Used()
	if limit.Lease == 0 {
		passed := now.Sub(limit.Since)
		if passed < e.cfg.Brisk.Lease/2 {
			return nil
		}
		demand = float64(used-limit.Count) / passed.Seconds()
		limit.Since, limit.Count = now, used
		if passed > 2*e.cfg.Brisk.Lease || demand < e.cfg.Brisk.Demand {
			return nil
		}
	}
	l, _ := limit.Ahead.Load().(*lease)
	if l == nil {
		l = &lease{need: Need{Part: Part{limit, 1}}}
		l.burst.of = l
		limit.Ahead.Store(l)
	}
	l.demand, l.since, l.count = demand, now, used
	e.leases[limit] = l
	return l
}

// wants returns how many permits to take ahead now.
func (e *Engine) wants(l *lease, now time.Time) int64 {
	limit := l.need.Limit
	lasts := e.lasting(limit)
	if passed := now.Sub(l.since); passed >= lasts/64 {
		used, lapsed := limit.Used(), l.counts(false).Lapsed
		l.credit -= l.credit * min(passed, lasts).Seconds() / briskRecent.Seconds()
		l.credit += float64(used-l.count)/e.cfg.Brisk.Used - float64(lapsed-l.lapsed)
		l.demand += (float64(used-l.count)/passed.Seconds() - l.demand) * min(1, passed.Seconds()/lasts.Seconds())
		l.count, l.since, l.lapsed = used, now, lapsed
	}
	want := int64(math.Ceil(l.demand * lasts.Seconds() / 2))
	switch {
	case limit.Lease > 0:
	case l.demand < e.cfg.Brisk.Demand:
		want = 0
	default:
		want = min(want, limit.Stored(now, lasts)/briskStored, int64(max(0, l.credit)))
	}
	return l.lacks(want)
}

// askAhead makes a line ask for more permits, because a call has found that there are few.
func (e *Engine) askAhead(limit *wire.Limit, now time.Time) {
	l := e.leases[limit]
	switch {
	case l == nil || l.asking:
	case e.closed || e.wants(l, now) == 0:
		l.asks(false)
	default:
		e.asksAlone(l)
	}
}

// asksAlone makes the line of a lease ask.
func (e *Engine) asksAlone(l *lease) {
	if of := e.lineOf(&l.need); !of.queued {
		e.queue.add(of)
	}
}

// takeAhead adds an item by which a line asks ahead of its calls, as far as the bucket is known to have
// permits.
func (e *Engine) takeAhead(b *Batch, of *line, now time.Time) {
	limit := of.need.Limit
	if e.closed || !of.need.leases() {
		return
	}
	l := e.leaseFor(limit, now)
	if l == nil {
		return
	}
	if len(of.waiting) > 0 {
		l.waits(of)
		l.use(now)
	}
	if l.asking {
		return
	}
	n := e.wants(l, now)
	if n > 0 { // calls that do not ask with this batch need permits, too
		n += int64(of.fresh()) * of.need.Cost
	}
	n = min(n, limit.Stored(now, e.lasting(limit))-int64(len(of.waiting))*of.need.Cost)
	if n > 0 && of.need.Now { // each such call asks for itself alone
		e.asksAlone(l)
		return
	}
	l.asking = n > 0
	if l.asks(l.asking); !l.asking {
		return
	}
	e.number++
	b.add(of, wire.Item{Count: 1, Number: e.number, Ahead: e.lasting(limit)}, nil)
	b.parts[len(b.parts)-1].Cost = n
	b.asks[len(b.asks)-1].lease = l
}

// isAsked notes that no batch asks for more any longer.
func (l *lease) isAsked() {
	l.asking = false
	l.asks(false)
}

// ahead gives waiting calls the permits that were asked for ahead of calls.
func (e *Engine) ahead(l *lease, now time.Time) {
	if e.closed {
		l.drop(func(*Turn) bool { return true })
		return
	}
	l.passOn(l.behind, now)
	if _, has := l.has(); has {
		e.alarms.set(&l.burst, inStep(now.Add(e.gap(l))))
	}
}

// gap is how long after its last call a burst is over.
func (e *Engine) gap(l *lease) time.Duration {
	usual := time.Duration(longGap / max(l.demand, 1e-9) * float64(time.Second))
	return max(usual, e.lasting(l.need.Limit)/longPart, 2*e.clock.known.trip)
}

// inStep returns a moment up to `together` later. Leases whose bursts end at about the same time share a trip.
func inStep(at time.Time) time.Time {
	return at.Add(together - time.Duration(at.UnixNano())%together)
}

// isDue returns the permits of a lease whose burst is over.
func (l *lease) isDue(e *Engine, now time.Time) {
	drawn, has := l.has()
	if !has || e.closed {
		return
	}
	if rest := e.gap(l) - now.Sub(drawn); rest > 0 {
		e.alarms.set(&l.burst, inStep(now.Add(rest)))
		return
	}
	e.giveLast(l, now)
}

// giveLast returns the permits of the last ask to the bucket, as far as they were not used. Many leases share a
// trip.
func (e *Engine) giveLast(l *lease, now time.Time) {
	t, permits := l.takeLast()
	if permits == 0 {
		return
	}
	if e.unlent == nil {
		e.unlent = e.batch(Leave)
	}
	e.unlent.Left = append(e.unlent.Left, wire.Left{Limit: e.unlent.at(l.need.Limit), Turns: t.Ask, Cost: t.Permit - permits})
	e.parts = append(e.parts, lent{l, permits})
	if len(e.parts)*workOfCall >= mostWork {
		e.sendGone(now)
	}
}

// sendGone sends what leases return.
func (e *Engine) sendGone(now time.Time) {
	b, gone := e.unlent, e.parts
	if b == nil {
		return
	}
	e.unlent, e.parts = nil, nil
	b.answered = func(_ time.Time, r *Result) {
		for i, g := range gone {
			g.of.went(min(r.Counts[i], g.permits), g.permits)
		}
	}
	b.failed = func(time.Time, error) {
		for _, g := range gone {
			g.of.went(0, g.permits)
		}
	}
	e.once(b, now)
}

// dropLeases drops permits of the limit with a key whose turns are revoked: void is true for them.
func (e *Engine) dropLeases(key string, void func(*Turn) bool) {
	for limit, l := range e.leases {
		if limit.Keys[0] == key {
			l.drop(void)
		}
	}
}

// trustLeases tells the leases until when the process surely counts as alive.
func (e *Engine) trustLeases() {
	for _, l := range e.leases {
		l.trusts(e.answered.Add(trusted))
	}
}

// tidyLeases returns permits that no call will use: old permits, or all permits if all is true. It forgets
// leases that no call needs.
func (e *Engine) tidyLeases(now time.Time, all bool) {
	for _, limit := range slices.SortedFunc(maps.Keys(e.leases), func(a, b *wire.Limit) int { return cmp.Compare(a.Keys[0], b.Keys[0]) }) {
		l := e.leases[limit]
		if all || now.Sub(l.since) > e.lasting(limit) {
			e.giveLast(l, now)
			l.drop(func(*Turn) bool { return true }) // these cannot be returned, as others have spent since
		}
		if _, has := l.has(); !has && !l.asking && now.Sub(l.since) > limit.Lease+unused {
			e.alarms.clear(&l.burst)
			e.retired(limit.Name).add(l.counts(true))
			l.lapsed = 0
			delete(e.leases, limit)
		}
	}
}

func (s *LeaseStats) add(o LeaseStats) {
	s.Taken, s.Used, s.Returned, s.Lapsed = s.Taken+o.Taken, s.Used+o.Used, s.Returned+o.Returned, s.Lapsed+o.Lapsed
}

// retired returns the counts of the leases of a name that were forgotten.
func (e *Engine) retired(name *wire.Name) *LeaseStats {
	if e.past[name] == nil {
		e.past[name] = &LeaseStats{}
	}
	return e.past[name]
}

// LeaseStats returns the counts of all limits of a name.
func (e *Engine) LeaseStats(name *wire.Name) LeaseStats {
	sum := *e.retired(name)
	for limit, l := range e.leases {
		if limit.Name == name {
			sum.add(l.counts(false))
		}
	}
	return sum
}
