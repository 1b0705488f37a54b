package reserve

import "time"

// geometry is where a line is: its permits are due one interval apart. A pause moves it,
// and so does another limit, and with it turns that are fixed already; gen counts that.
type geometry struct {
	epoch, gen int64
	number     int64     // the last one that was fixed …
	at         time.Time // … and when it is due
	until      time.Time // nothing is due before; zero: no matter
	told       time.Time // when the reply arrived …
	seen       int64     // … and Redis's time then, in Unix microseconds
	terms
}

// geometry is where the line is, as a reply says.
func (a answers) geometry() geometry {
	g := geometry{epoch: a.epoch, gen: a.gen, number: a.final, at: a.at.Add(a.reach), terms: a.terms, told: a.at, seen: a.seen}
	if a.pause > 0 {
		g.until = a.at.Add(a.pause)
	}
	return g
}

// due is when a permit is.
func (g *geometry) due(permit int64) time.Time {
	ahead := float64(permit-g.number) * g.interval * float64(time.Microsecond)
	return g.at.Add(time.Duration(max(-float64(longest), min(ahead, float64(longest)))))
}

// adjust gives a ticket the turn that it has since the line moved. One whose permits are
// used up by a pause has to be claimed: for another number.
func (g *geometry) adjust(t *ticket, now time.Time) {
	if t.number == 0 || t.epoch != g.epoch || t.gen >= g.gen {
		return
	}
	t.gen = g.gen
	t.due, t.since, t.unsure, t.slack = g.due(t.number), 0, 0, g.slack(t.cost)
	t.seen = g.seen + t.given.Sub(g.told).Microseconds() // as the turn counts from this reply
	first := g.due(t.number - t.cost + 1)
	if t.final && first.Add(time.Microsecond).Before(g.until) { // replies round
		t.final, t.kept, t.due = false, false, now
	}
}

// follow takes in where the line is, if it has moved, and lets the turns that were given
// before follow. The line must be locked.
func (l *line) follow(g geometry) {
	if g.epoch == l.where.epoch && g.gen <= l.where.gen {
		return
	}
	moved := l.where.epoch == g.epoch
	l.where, l.inForce = g, g.terms
	if !moved {
		return // all that is known was given by that line
	}
	if l.memory.epoch == g.epoch && g.at.After(l.memory.reach) {
		l.memory.reach = g.at
	}
	l.drop()
	for g := range l.guests {
		g.tell()
	}
	for q := range l.all {
		q.resettle(l.adjust)
		l.advance(q)
	}
}

// adjust gives a ticket of a reply the turn that it has now. The line must be locked.
func (l *line) adjust(t *ticket) { l.where.adjust(t, time.Now()) }
