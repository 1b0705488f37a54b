package reserve

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// LeaseStats counts the permits that a process took ahead of its calls; see
// [Config.Lease]. Taken is the sum of the others and of those that it holds.
type LeaseStats struct {
	Taken    int64 // from the line
	Used     int64 // by calls
	Returned int64 // to the line
	Lapsed   int64 // lost: nobody used them while they fitted in the bucket
}

// LeaseStats returns the counts since the Limiter was made, of all its keys.
func (l *Limiter) LeaseStats() LeaseStats {
	c := &l.core.leased
	return LeaseStats{c.taken.Load(), c.used.Load(), c.returned.Load(), c.lapsed.Load()}
}

type leaseCounts struct{ taken, used, returned, lapsed atomic.Int64 }

// settle counts what became of tickets that were to go back; none did if nobody knows.
func (c *leaseCounts) settle(tickets []*ticket, went []bool) {
	for i, t := range tickets {
		switch {
		case !t.leased:
		case went != nil && went[i]:
			c.returned.Add(t.cost)
		default:
			c.lapsed.Add(t.cost)
		}
	}
}

// block is a row of permits taken ahead: final numbers that no call has yet.
type block struct {
	epoch      int64
	start, end int64     // the permits are (start, end]
	due        time.Time // of permit start
	given      time.Time
	seen       int64 // as of a ticket
}

func (b *block) permits() int64 { return b.end - b.start }

// cut takes permits off the front.
func (b *block) cut(permits int64, c *core) {
	b.start += permits
	b.due = b.due.Add(c.step(permits))
}

// lease is what a line holds ahead of its calls: as much as they need in half of the
// time for which permits last. It gets more when about half of that is left, and what
// is older than seven eighths of the time goes back, so that little lapses.
type lease struct {
	blocks []block
	held   int64   // permits in them
	asked  bool    // for more
	part   float64 // that is left of the need when it asks for more
	timer  *time.Timer

	cost   int64     // of the last call
	demand float64   // permits per second of late
	count  int64     // permits that calls got …
	since  time.Time // … since then
}

// need is how many permits a line should hold.
func (l *line) need(now time.Time) float64 {
	s, lasting := &l.lease, l.core.lasting()
	switch passed := now.Sub(s.since); {
	case s.since.IsZero():
		s.since = now
	case passed >= lasting/64:
		of := float64(s.count) / passed.Seconds()
		s.demand += (of - s.demand) * min(1, passed.Seconds()/lasting.Seconds())
		s.count, s.since = 0, now
	}
	return s.demand * lasting.Seconds() / 2
}

// wants is how many permits to take ahead now.
func (l *line) wants(now time.Time) int64 {
	if l.core.lasting() == 0 || l.core.isClosing() {
		return 0
	}
	s, need := &l.lease, l.need(now)
	if float64(s.held) > s.part*need {
		return 0
	}
	calls := math.Ceil((math.Ceil(need) - float64(s.held)) / float64(max(s.cost, 1)))
	return max(0, int64(calls)*max(s.cost, 1)) // nothing is left over when all cost the same
}

// draw gives a call permits that the line holds, if there are enough and nobody waits.
func (l *line) draw(cost int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.lease
	s.cost = cost
	if s.held < cost {
		return false
	}
	now := time.Now()
	l.lapse(now)
	for _, q := range l.queues {
		if q.waiters.Len() > 0 {
			return false
		}
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.permits() < cost {
			continue
		}
		b.cut(cost, l.core)
		s.held -= cost
		s.count += cost
		l.core.leased.used.Add(cost)
		l.observe(&ticket{cost: cost, epoch: b.epoch, number: b.start, due: b.due, given: b.given, seen: b.seen, slack: l.core.fill()}, now)
		l.stockUp(now)
		return true
	}
	return false
}

// stockUp asks for more if little is left. The line must be locked.
func (l *line) stockUp(now time.Time) {
	if s := &l.lease; s.asked || !l.rides.plain || l.wants(now) == 0 {
		return
	}
	l.lease.asked = true
	if !l.rides.stop {
		l.rides.stop = true
		if l.core.bus.call(l, true, 0) {
			go l.core.bus.drive()
		}
	}
}

// lapse drops permits that have overflowed by now, and all of a process that was
// suspended: its clock does not tell. The line must be locked.
func (l *line) lapse(now time.Time) {
	s := &l.lease
	for i := range s.blocks {
		b := &s.blocks[i]
		var gone int64
		if late := now.Sub(b.due) - l.core.fill(); late > 0 {
			gone = int64(math.Ceil(float64(late) / float64(time.Microsecond) / l.core.interval))
		}
		if now.Round(0).Sub(b.given.Round(0))-now.Sub(b.given) > suspension {
			gone = b.permits()
		}
		if gone = min(gone, b.permits()); gone > 0 {
			b.cut(gone, l.core)
			s.held -= gone
			l.core.leased.lapsed.Add(gone)
		}
	}
	s.blocks = slices.DeleteFunc(s.blocks, func(b block) bool { return b.permits() == 0 })
}

// drop lets go of permits that a pause has used up, or moved. The line must be locked.
func (l *line) drop() {
	l.core.leased.lapsed.Add(l.lease.held)
	l.lease.blocks, l.lease.held = nil, 0
}

// keep takes in permits for later. The line must be locked.
func (l *line) keep(b block) {
	s := &l.lease
	s.asked, s.part = false, 0.4+0.2*l.core.jitter()
	if b.permits() == 0 {
		return
	}
	s.blocks = append(s.blocks, b)
	s.held += b.permits()
	l.core.leased.taken.Add(b.permits())
	if s.timer == nil { // it keeps the line
		l.core.hold(l)
		s.timer = time.AfterFunc(l.core.old(), l.tidy)
	}
	if l.core.isClosing() {
		l.tidyNow()
	}
}

// tidyNow lets tidy run now, unless it is about to. The line must be locked.
func (l *line) tidyNow() {
	if s := &l.lease; s.timer != nil && s.timer.Stop() {
		s.timer.Reset(0)
	}
}

// old is the age at which permits taken ahead go back.
func (c *core) old() time.Duration { return c.lasting() * 7 / 8 }

// tidy gives back what is old, and all at the end.
func (l *line) tidy() {
	l.mu.Lock()
	s, now := &l.lease, time.Now()
	old := l.core.old()
	for len(s.blocks) > 0 && (now.Sub(s.blocks[0].given) >= old || l.core.isClosing()) {
		b := s.blocks[0]
		s.blocks = s.blocks[1:]
		s.held -= b.permits()
		if b.permits() < s.cost { // of no use to others either, and in their way
			l.core.leased.lapsed.Add(b.permits())
		} else {
			l.giveBack(&ticket{cost: b.permits(), epoch: b.epoch, number: b.end, final: true, leased: true})
		}
	}
	if len(s.blocks) > 0 {
		s.timer.Reset(s.blocks[0].given.Add(old).Sub(now))
		l.mu.Unlock()
		return
	}
	s.timer = nil
	l.mu.Unlock()
	l.core.leave(l)
}
