package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// move is what happened to a limit of late. Replies may have been on their way then.
type move struct {
	paused, until int64     // Turns that were given until the one, and are due before the other, are void. Times of Redis.
	changed       int64     // When it became another limit, by Redis.
	own           int64     // When this process did something to it, by Redis.
	heard         time.Time // When the process heard of the last of these.
}

// overtaken is for how long a reply may come that was on its way as a limit was moved.
const overtaken = time.Minute

// moveOf is what happened to the limit with a key of late, to be told more. What is of long ago is
// forgotten.
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

// stands lets a turn of a reply be what it is after all that happened to its limits since the ask was
// sent: false, if it is void. Times of Redis alone do not tell, as its clock may have stepped back.
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

// pausedAt takes the turns of a limit back that were not used, were given until a time of Redis, and
// are due before another one.
func (e *Engine) pausedAt(key string, given, due int64, now time.Time) {
	if m := e.moveOf(key, now); given >= m.paused {
		m.paused, m.until = given, due
	}
	e.takeBack(key, now, func(t *Turn) bool { return t.Given <= given && t.Moment < due })
}

// takeBack takes turns of a limit back that were not used.
func (e *Engine) takeBack(key string, now time.Time, void func(*Turn) bool) {
	e.dropLeases(key, void)
	for _, l := range e.inUse {
		if l.isAt(key) {
			if n := l.takeBack(void, now); n > 0 {
				e.tell(Event{What: Voided, N: n, Need: &l.need})
			}
		}
	}
	e.refreshKey(key, now)
}

// change is that of a limit. Turns that were given before keep their moments. Turns of a paced limit may
// be used when they are due, and no later: two that are both used late may be too close together for
// the limit that is in force then.
type change struct {
	at    int64 // A time of Redis.
	paced bool  // It has another interval, or a smaller burst.
}

// newChange reads "<factor>:<less>" of the news.
func newChange(at int64, text string) change { return change{at: at, paced: text != "1:0"} }

// shorten lets a turn be used when it is due, and reports whether that is less long.
func (c *change) shorten(t *Turn) bool {
	return c.paced && t.Given <= c.at && t.Process != "" && t.shorten(t.Due)
}

// changedTo follows a limit that is another one.
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
	e.refreshKey(key, now)
}

// heardOf tells that another process has moved a limit; what this one did itself is not told.
func (e *Engine) heardOf(key, what string, micros int64) {
	if m := e.moves[key]; e.moving[key] > 0 || m != nil && m.own == micros {
		return
	}
	for _, u := range e.names {
		for l := range u.limits {
			if l.Keys[0] == key {
				e.tell(Event{What: Moved, Limit: l, Text: what})
				return
			}
		}
	}
}

// Moves notes that a call of this process moves limits.
func (e *Engine) Moves(limits []*wire.Limit) { e.isMoving(limits, 1) }

// HasMoved notes that such a call is over, and when Redis did it; 0: it has failed. News of that come
// back to this process as to all others; where it hears none, its calls that wait ask at once all the
// same.
func (e *Engine) HasMoved(now time.Time, limits []*wire.Limit, micros int64) {
	e.isMoving(limits, -1)
	if micros == 0 {
		return
	}
	for _, l := range limits {
		e.moveOf(l.Keys[0], now).own = micros
		e.forgetMissed(l.Keys[0], now)
	}
	e.refreshLines(func(l *line) bool {
		return slices.ContainsFunc(limits, func(of *wire.Limit) bool { return l.isAt(of.Keys[0]) })
	})
}

// HasPaused is HasMoved for a pause that lasts so long at each limit.
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

// askForPlans tells at which limits calls wait that have plans.
func (e *Engine) askForPlans() {
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
	}
}

// Planned takes in that limits have other plans, which Redis was not told of: the first calls that wait there ask.
func (e *Engine) Planned(now time.Time, limits []*wire.Limit) {
	of := map[string]bool{}
	for _, l := range limits {
		of[l.Keys[0]] = true
		e.forgetMissed(l.Keys[0], now)
	}
	e.refreshLines(func(l *line) bool {
		return slices.ContainsFunc(l.parts, func(p Part) bool { return of[p.Limit.Keys[0]] })
	})
}

// Rest lets no call of some limits be made by this process before a moment, while Redis is away: a
// pause did not reach it. Turns that were not used, and are due before, are void.
func (e *Engine) Rest(now time.Time, limits []*wire.Limit, until time.Time) {
	maps.DeleteFunc(e.rests, func(_ string, end time.Time) bool { return now.After(end) })
	for _, l := range limits {
		key := l.Keys[0]
		e.rests[key] = later(e.rests[key], until)
		e.takeBack(key, now, func(t *Turn) bool { return t.Due.Before(until) })
	}
}

// takeBack takes back turns that were not used: their calls ask again, first of all, with their
// tags. It returns how many. Turns that Redis knows nothing of stay.
func (l *line) takeBack(void func(*Turn) bool, now time.Time) (n int) {
	for i, c := range slices.Backward(l.given) {
		if t := c.turn; t.Process != "" && void(t) {
			l.given = slices.Delete(l.given, i, i+1)
			l.first(c, t, "", now)
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

// change lets turns that were not used be others, as far as it says so: their calls are woken.
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
