package reserve

import (
	"math"
	"time"
)

// leg is the part of a trip that is for one line.
type leg struct {
	hop
	line   *line
	lane   *lane
	gen    int64 // of the line, as far as the process knew when it left
	riders []*waiter
	seen   int64 // Redis's time, as for a ticket
	cost   int64 // of each; 0: not all have the same
}

// seat takes in the calls that did not leave, and works out what they need: all of
// their permits, and the last moment at which the first of these may be due, so that
// each has its turn before its deadline and all are final.
func (g *leg) seat(calls []*waiter, c *core, now time.Time) {
	g.riders = calls[:0]
	g.slack = math.Inf(1)
	for _, w := range calls {
		if w.stage.Load() != riding {
			continue
		}
		if g.riders = append(g.riders, w); len(g.riders) == 1 {
			g.cost = w.cost
		} else if w.cost != g.cost {
			g.cost = 0
		}
		g.permits += w.cost
		if !w.deadline.IsZero() {
			longest := max(0, w.deadline.Sub(now))
			g.slack = min(g.slack, float64(longest.Microseconds())-float64(g.permits)*c.interval)
		}
	}
	bound := float64(c.cfg.InlineBound.Microseconds()) - float64(g.permits)*c.interval
	g.slack = math.Floor(min(g.slack, bound))
}

// takeAhead asks for permits besides, or, when nobody rides, for nothing else.
func (g *leg) takeAhead(permits int64, c *core) {
	g.extra = permits
	if len(g.riders) == 0 && permits > 0 {
		g.permits, g.extra = 1, permits-1
		g.slack = -math.Ceil(c.interval) // it is due
	}
}

// getOff ends a leg, and lets the bus come for those who wait. The line must be locked.
func (l *line) getOff(g *leg) {
	if r := &l.rides; len(r.waiting) > 0 && !r.stop {
		r.stop = true
		if l.core.bus.call(l, true, 0) {
			defer func() { go l.core.bus.drive() }()
		}
	}
	for i, other := range l.rides.aboard {
		if other == g {
			last := len(l.rides.aboard) - 1
			l.rides.aboard[i] = l.rides.aboard[last]
			l.rides.aboard[last] = nil
			l.rides.aboard = l.rides.aboard[:last]
			return
		}
	}
}

// carried is how many permits the calls of a leg need.
func (g *leg) carried() int64 {
	if len(g.riders) == 0 {
		return 0
	}
	return g.permits
}

// rest is what a leg brought besides.
func (g *leg) rest(start, at time.Time, c *core) block {
	b := block{epoch: g.epoch, start: g.before, end: g.before + g.given, due: start, given: at, seen: g.seen}
	b.cut(g.carried(), c)
	return b
}
