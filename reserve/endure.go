package reserve

import (
	"cmp"
	"slices"
	"time"
)

// endure lets the calls of the line live by the policy. The line must be locked.
func (l *line) endure() {
	l.absent(time.Now())
	l.turnAllAway()
	switch l.core.cfg.Outage.Policy {
	case PolicyFail:
		l.failAll(l.core.gate.Shut())
	case PolicyLocal, PolicyOpen:
		l.serve()
	case PolicyWait:
	}
}

// failAll fails all calls that have no turn.
func (l *line) failAll(err error) {
	asks := l.asks
	l.asks = nil
	for _, a := range asks {
		a.done(nil, cmp.Or(a.err, err))
	}
	for q := range l.all {
		for _, t := range slices.Clone(q.waiting) {
			if t.owner != nil {
				q.remove(t)
				t.owner.finish(nil, err)
			}
		}
		for q.waiters.Len() > len(q.final) {
			w := q.waiters.Back().Value.(*waiter)
			w.leave()
			w.finish(nil, err)
		}
		l.advance(q)
	}
}

// grant answers a call that does not wait in the line: at once if it asks for a
// turn now, with a forecast if it makes a reservation.
func (l *line) grant(a *absence, ask *ask, now time.Time) {
	switch at := l.forecast(a, ask.cost, now); {
	case ask.keep:
		ask.done(l.unnumbered(ask.id, ask.cost, now), nil)
	case ask.deadline.Before(at):
		ask.done(nil, miss(at.Sub(now), ask.deadline))
	default:
		a.spend(now, ask.cost)
		ask.done(&ticket{cost: ask.cost, id: ask.id, given: now, due: now, final: true}, nil)
	}
}

// serve lets calls through while Redis is away, in the order in which they came,
// and sets the timer for the next. The line must be locked.
func (l *line) serve() {
	a := l.memory.absent
	policy := l.core.cfg.Outage.Policy
	if a == nil || policy != PolicyLocal && policy != PolicyOpen {
		return
	}
	now := time.Now()
	if l.takeOver(now) || a.until.IsZero() && !l.core.gate.Open() {
		return
	}
	for _, ask := range slices.Clone(l.asks) {
		if ask.queue == nil {
			l.withdraw(ask)
			l.grant(a, ask, now)
		}
	}
	wake, released := a.until, false
	for w := l.foremost(); w != nil; w = l.foremost() {
		at := a.at(now, w.queue.cost)
		if !w.deadline.IsZero() && at.After(w.deadline) {
			l.miss(w, at.Sub(now))
			released = true
			continue
		}
		if at.After(now) {
			a.plan(at)
			if wake.IsZero() || at.Before(wake) {
				wake = at
			}
			break
		}
		a.spend(now, w.queue.cost)
		l.release(w, now)
		released = true
	}
	if released {
		for q := range l.all {
			l.advance(q)
		}
	}
	if !wake.IsZero() {
		l.wakeAt(nil, wake.Sub(now))
	}
	if l.needed() {
		l.kick() // somebody has to look for Redis
	}
}

// takeOver ends an absence whose time is over, and reports whether it did.
func (l *line) takeOver(now time.Time) bool {
	if l.memory.absent == nil { // somebody else has
		return true
	}
	if until := l.memory.absent.until; until.IsZero() || until.After(now) {
		return false
	}
	l.isBack()
	l.stop(nil)
	return true
}

// foremost is the call that came first of those that have no turn.
func (l *line) foremost() *waiter {
	var first *waiter
	for q := range l.all {
		if w := q.foremost(); w != nil && (first == nil || w.arrival < first.arrival) {
			first = w
		}
	}
	return first
}

// miss ends a call whose turn would come after its deadline.
func (l *line) miss(w *waiter, wait time.Duration) {
	w.leave()
	if l.withdraw(w.ask) {
		w.queue.asking--
	}
	w.finish(nil, miss(wait, w.deadline))
}

// release lets a call through without a turn of the line. Its number, if it has
// one, goes back.
func (l *line) release(w *waiter, now time.Time) {
	q := w.queue
	if t := w.own; t != nil {
		q.remove(t)
		if t.number != 0 {
			l.back = append(l.back, &ticket{cost: t.cost, id: t.id})
		}
		t.number, t.epoch, t.given, t.seen, t.due, t.final = 0, 0, now, 0, now, true
		l.observe(t, now)
		w.finish(t, nil)
		return
	}
	w.leave()
	if l.withdraw(w.ask) {
		q.asking--
	}
	t := &ticket{cost: q.cost, given: now, due: now, final: true}
	l.observe(t, now)
	w.finish(t, nil)
}
