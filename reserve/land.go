package reserve

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/observe"
)

// land gives the calls of a leg what Redis gave.
func (l *line) land(g *leg, seen int64, at time.Time) {
	now := time.Now()
	l.mu.Lock()
	l.getOff(g)
	g.seen = seen
	g.lane.busy = false
	if g.before < 0 {
		l.lease.asked = false
		l.rides.plain = l.rides.plain && len(g.riders) == 0
		for _, w := range g.riders {
			l.turnAway(w)
		}
		l.serve()
		l.mu.Unlock()
		return
	}
	g.lane.saw(g.epoch, seen)
	start := at.Add(g.due)
	if g.epoch == l.memory.epoch { // else data was lost meanwhile
		l.keep(g.rest(start, at, l.core))
		if g.gen < l.where.gen { // it has moved meanwhile
			l.drop()
		}
		l.memory.note(g.serial, answers{at: at, head: head{
			epoch: g.epoch, reach: g.due + l.core.step(g.given), live: g.live, idle: g.idle,
		}})
	}
	if !l.allGo(g, start, now) {
		l.file(g, start, at)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()

	// Nobody else is before them, so the line is free for those who come.
	var unused []*ticket
	number := g.before
	for _, w := range g.riders {
		cost := w.cost
		number += cost
		if w.turn(granted) {
			if observe.On() {
				l.observe(l.numbered(g, number, cost, start, at), now)
			}
			w.tell()
		} else {
			unused = append(unused, l.numbered(g, number, cost, start, at))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(g.riders)
	l.rides.spare = g.riders[:0]
	for _, t := range unused {
		l.adjust(t)
		q := l.shared(t.cost)
		q.add(t)
		l.advance(q)
	}
}

// allGo reports whether all calls of a leg have their turn now, and nobody waits for
// whom they would make way.
func (l *line) allGo(g *leg, start, now time.Time) bool {
	if g.epoch == l.where.epoch && g.gen < l.where.gen || start.Add(l.core.step(g.carried())).After(now) || now.Sub(start) > l.core.fill()+oversleep {
		return false
	}
	if g.cost > 0 {
		q := l.queues[g.cost]
		return q == nil || q.waiters.Len() == 0
	}
	for _, q := range l.queues {
		if q.waiters.Len() > 0 {
			return false
		}
	}
	return true
}

// numbered is a ticket that a leg brought.
func (l *line) numbered(g *leg, number, cost int64, start, at time.Time) *ticket {
	return &ticket{
		cost: cost, id: l.core.newID(), epoch: g.epoch, gen: g.gen, number: number, final: true,
		given: at, seen: g.seen, due: start.Add(l.core.step(number - g.before)), slack: l.core.terms().slack(cost),
	}
}

// file lets the calls of a leg stand with their numbers, as some are not due, or others
// wait before them, or they come too late. The line must be locked.
func (l *line) file(g *leg, start, at time.Time) {
	number := g.before
	for _, w := range g.riders {
		number += w.cost
		t := l.numbered(g, number, w.cost, start, at)
		l.adjust(t)
		q := l.shared(w.cost)
		switch {
		case w.lone:
			l.answer(q, w, t)
		case !w.turn(standing):
			q.add(t)
		default:
			l.stand(w)
			l.assign(q, w, t)
		}
	}
	for _, q := range l.queues {
		l.advance(q)
	}
}

// answer gives a call that does not stand its turn, if it is now; else it asks again. The
// line must be locked.
func (l *line) answer(q *queue, w *waiter, t *ticket) {
	now := time.Now()
	if t.final && !t.due.After(now) && !t.overslept(now) && w.turn(granted) {
		l.observe(t, now)
		w.tell()
		return
	}
	l.turnAway(w)
	q.add(t)
}
