package engine

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// move is what happened to a limit recently. Replies may have been on their way at that time.
type move struct {
	paused, until int64     // A pause revoked turns that were given up to paused and due before until. Times of Redis.
	changed       int64     // When the limit last changed, by Redis's clock.
	own           int64     // When this process last moved it, by Redis's clock.
	heard         time.Time // When the process last learned about any of these.
}

// overtaken is how long a reply may take that was on its way when a limit was moved.
const overtaken = time.Minute

// moveOf returns the record of what happened recently to the limit with a key, so that the caller can add to
// it. Old records are forgotten.
func (e *Engine) moveOf(key string, now time.Time) *move {
	if len(e.moves) >= e.mostMoves {
		e.forgetMoves(now)
		e.mostMoves = 2*len(e.moves) + 100
	}
	m := e.moves[key]
	if m == nil {
		m = &move{}
		e.moves[key] = m
	}
	m.heard = now
	return m
}

// forgetMoves forgets what happened long ago.
func (e *Engine) forgetMoves(now time.Time) {
	maps.DeleteFunc(e.moves, func(_ string, m *move) bool { return now.Sub(m.heard) > overtaken })
}

// stands applies what happened to the limits of a turn since its ask was sent. It reports false if the turn is
// revoked. Times of Redis alone do not suffice, as its clock may have stepped back.
func (e *Engine) stands(l *line, t *Turn, sent time.Time) bool {
	for _, p := range l.parts {
		m := e.moves[p.Limit.Keys[0]]
		if m == nil || sent.After(m.heard) {
			continue
		}
		if t.Given <= m.paused && t.Moment < m.until {
			return false
		}
		if t.Given < m.changed {
			t.shorten(t.Due)
		}
	}
	return true
}

// pausedAt revokes the unused turns of the limit with a key that were given up to a time of Redis, and are due
// before another time.
func (e *Engine) pausedAt(key string, given, due int64, now time.Time) {
	if m := e.moveOf(key, now); given >= m.paused {
		m.paused, m.until = given, due
	}
	e.takeBack(key, given, now, func(t *Turn) bool { return t.Given <= given && t.Moment < due })
}

// takeBack revokes the unused turns of the limit with a key for which void is true, because of news of a time of
// Redis.
func (e *Engine) takeBack(key string, news int64, now time.Time, void func(*Turn) bool) {
	e.dropLeases(key, void)
	revoked := map[*int64]int64{} // permits behind the used ones, by what their ask was given
	for _, l := range e.inUse {
		for _, c := range l.given {
			if l.isAt(key) && void(c.turn) && c.turn.isBehind() {
				revoked[c.turn.out] += l.need.Cost
			}
		}
	}
	for _, l := range e.inUse {
		if l.isAt(key) {
			if n := l.takeBack(void, revoked, now); n > 0 {
				e.tell(Event{What: Voided, N: n, Need: &l.need})
			}
		}
	}
	e.refreshKey(key, 0, news, now)
}

// change is the change of a limit to another one. Turns that were given before keep their moments. Turns of a
// paced limit may be used when they are due, and no later. If two turns are both used late, they may be too
// close together for the new limit.
type change struct {
	at    int64 // The time of Redis at which the limit changed.
	paced bool  // It has another interval, or a smaller burst.
}

// newChange reads the text "<factor>:<less>" of the news.
func newChange(at int64, text string) change { return change{at: at, paced: text != "1:0"} }

// shorten ends a turn at the moment at which it is due: see rare.change in paced.lua. It reports whether the turn
// ends earlier than before.
func (c *change) shorten(t *Turn) bool {
	return c.paced && t.Given <= c.at && t.Process != "" && t.shorten(t.Due)
}

// changedTo handles news that the limit with a key has become another one.
func (e *Engine) changedTo(key string, c change, now time.Time) {
	m := e.moveOf(key, now)
	m.changed = max(m.changed, c.at)
	for limit, l := range e.leases {
		if limit.Keys[0] == key {
			l.change(c.shorten)
		}
	}
	for _, l := range e.inUse {
		if l.isAt(key) {
			l.change(c.shorten)
		}
	}
	e.refreshKey(key, 0, c.at, now)
}

// heardOf reports that another process has moved a limit. It reports nothing that this process did itself.
func (e *Engine) heardOf(key, what string, micros int64) {
	if m := e.moves[key]; e.moving[key] > 0 || m != nil && m.own == micros {
		return
	}
	for _, u := range e.names {
		for l := range u.limits.all {
			if l.Keys[0] == key {
				e.tell(Event{What: Moved, Limit: l, Text: what})
				return
			}
		}
	}
}

// Moves notes that this process begins a call that moves limits.
func (e *Engine) Moves(limits []*wire.Limit) { e.isMoving(limits, 1) }

// HasMoved notes that such a call is over. micros is when Redis moved the limits. 0: the call has failed. This
// process receives news of it, as all others do. In case it receives none, its waiting calls ask at once.
func (e *Engine) HasMoved(now time.Time, limits []*wire.Limit, micros int64) {
	e.isMoving(limits, -1)
	if micros == 0 {
		return
	}
	for _, l := range limits {
		e.moveOf(l.Keys[0], now).own = micros
	}
	e.forgetMissed()
	e.refreshLines(func(l *line) bool {
		return slices.ContainsFunc(limits, func(of *wire.Limit) bool { return l.isAt(of.Keys[0]) })
	})
}

// HasPaused is HasMoved for a pause that lasts for left at each limit.
func (e *Engine) HasPaused(now time.Time, limits []*wire.Limit, micros int64, left []time.Duration) {
	e.HasMoved(now, limits, micros)
	if micros == 0 {
		return
	}
	for i, l := range limits {
		e.pausedAt(l.Keys[0], micros, micros+left[i].Microseconds(), now)
	}
}

func (e *Engine) isMoving(limits []*wire.Limit, change int) {
	for _, l := range limits {
		if e.moving[l.Keys[0]] += change; e.moving[l.Keys[0]] == 0 {
			delete(e.moving, l.Keys[0])
		}
	}
}

// halt fails the calls that wait at a limit with a hard stop, unless they stay, or have IDs, as bookings come back. A
// call with an ID that leaves fails only after its first answer, which may be a booking. Calls that do not wait are only
// not due. A reply may say nothing about a limit of its batch: its stop may be over.
func (e *Engine) halt(limits []*wire.Limit, r *wire.Reply) {
	for i, limit := range limits {
		s := limit.Stopped()
		if s == nil || !r.Tells(i) || e.cfg.Errors.Stopped == nil {
			continue
		}
		for _, l := range e.inUse {
			if l.isAt(limit.Keys[0]) && l.ends() {
				l.failAll(e.cfg.Errors.Stopped(limit, s))
			}
		}
	}
}

// ends reports whether a hard stop ends the waits of the line.
func (l *line) ends() bool {
	return !l.need.Stays && !l.need.Now && (l.need.ID == "" || l.need.Leaves && l.asked == 0)
}

// stops reports whether a hard stop is known that ends the waits of the line.
func (l *line) stops() bool {
	return l.ends() && slices.ContainsFunc(l.parts, func(p Part) bool { return p.Limit.Stopped() != nil })
}

// replanEvery is how often the plans are looked up of limits at which calls wait.
const replanEvery = 400 * time.Millisecond

// replanAfter sets the alarm for that.
func (e *Engine) replanAfter(now time.Time) {
	if !e.closed {
		e.alarms.set(&e.replan, now.Add(replanEvery))
	}
}

// askForPlans tells at which limits with plans calls wait.
func (e *Engine) askForPlans(now time.Time) {
	var limits []*wire.Limit
	seen := map[*wire.Limit]bool{}
	for _, l := range e.inUse {
		for _, p := range l.parts {
			if p.Limit.Plans && !seen[p.Limit] && len(l.waiting) > 0 {
				seen[p.Limit] = true
				limits = append(limits, p.Limit)
			}
		}
	}
	if len(limits) > 0 {
		e.tell(Event{What: Planning, Limits: limits})
		e.replanAfter(now)
	}
}

// Planned handles other plans of limits, which Redis does not know yet: the first calls that wait there ask.
func (e *Engine) Planned(now time.Time, limits []*wire.Limit) {
	of := map[string]bool{}
	for _, l := range limits {
		of[l.Keys[0]] = true
	}
	e.forgetMissed()
	e.refreshLines(func(l *line) bool {
		return slices.ContainsFunc(l.parts, func(p Part) bool { return of[p.Limit.Keys[0]] })
	})
}

// Rest keeps this process from making calls of some limits before a moment, while Redis is unreachable: a pause
// did not reach Redis. It revokes unused turns that are due before that moment.
func (e *Engine) Rest(now time.Time, limits []*wire.Limit, until time.Time) {
	maps.DeleteFunc(e.rests, func(_ string, end time.Time) bool { return now.After(end) })
	for _, l := range limits {
		key := l.Keys[0]
		e.rests[key] = later(e.rests[key], until)
		e.takeBack(key, math.MaxInt64, now, func(t *Turn) bool { return t.Due.Before(until) })
	}
}

// takeBack revokes unused turns for which void is true. Their calls ask again, first in the line, with their
// tags. If all turns of an ask are revoked, or all behind the used ones, Redis takes back their permits. It returns the
// number of these calls. Turns that Redis does not know stay.
func (l *line) takeBack(void func(*Turn) bool, revoked map[*int64]int64, now time.Time) (n int) {
	for i, c := range slices.Backward(l.given) {
		if t := c.turn; t.Process != "" && void(t) {
			l.given = slices.Delete(l.given, i, i+1)
			back := ""
			switch {
			case t.Alone:
				back = t.Ask
			case len(l.parts) == 1 && t.isBehind() && revoked[t.out] == *t.out-*t.spent:
				back = t.Ask + " " + strconv.FormatInt(*t.spent, 10)
			}
			l.first(c, t, back, now)
			l.wake(c)
			n++
		}
	}
	l.unused = slices.DeleteFunc(l.unused, func(t *Turn) bool {
		over := t.Process != "" && void(t)
		if over && l.slots != nil {
			l.done = append(l.done, t)
		}
		return over
	})
	l.touch()
	return n
}

// change applies a change to the unused turns. Calls whose turns change are woken.
func (l *line) change(change func(*Turn) bool) {
	for _, c := range l.given {
		if t := c.turn.kept(); change(t) {
			c.has(t)
			l.wake(c)
		}
	}
	for _, t := range l.unused {
		change(t)
	}
}

// isAt reports whether the calls of the line need the limit with a key.
func (l *line) isAt(key string) bool {
	return slices.ContainsFunc(l.parts, func(p Part) bool { return p.Limit.Keys[0] == key })
}
