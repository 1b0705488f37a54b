package engine

import (
	"slices"
	"time"
)

// This file is what a line does with the answers to what it has asked for.

// placed notes that a new call has a place.
func (l *line) placed(p *place, forecast, now time.Time) {
	l.asked--
	p.forecast, p.heard, p.stale = forecast, now, l.stale > 0
	l.stale = min(l.asked, max(0, l.stale-1))
	l.insert(p)
	if n := len(l.places); n <= len(l.waiting) && l.waiting[n-1].Held {
		l.wake(l.waiting[n-1])
	}
}

// booked notes that a new call does not wait here: it is to come back for its turn.
func (l *line) booked(turn time.Time) {
	l.asked--
	if len(l.waiting) > 0 {
		c := l.pop()
		c.due = turn
		l.end(c, Booked)
	}
}

// granted notes that a new call was given a turn.
func (l *line) granted(t *Turn, now time.Time) {
	l.asked--
	t.Placed = false
	l.give(t, now)
	if len(l.waiting) > 0 {
		l.wakeLast()
	}
}

// reached notes that a place was given a turn. If that was to be farther off than turns are given,
// permits come sooner than others were told: the next two ask at once.
func (l *line) reached(p *place, t *Turn, now time.Time) {
	l.remove(p)
	if p.far && !l.atSlots(p.limit) {
		l.hasten(p.limit, growth)
	}
	t.Placed, t.Slowest = true, p.limit
	l.give(t, now)
}

// hasten lets the first n places at a limit ask at once that do not do so anyway.
func (l *line) hasten(limit, n int) {
	for _, p := range l.places {
		if p.limit == limit && !p.asking && !p.stale {
			if n--; n < 0 {
				return
			}
			p.stale, p.close = true, false
		}
	}
}

// waits notes the answer to a place that was given no turn: it waits at that limit, with those tags,
// and has another forecast. A call may come forward, so its tags may be others.
func (l *line) waits(p *place, limit int, tags []int64, forecast, now time.Time, lead time.Duration) {
	if p.limit != limit { // what it hears there says nothing of those that wait where it was
		p.limit, p.leads = limit, false
	}
	if tags != nil && !slices.Equal(tags, p.tags) && l.remove(p) {
		p.tags = tags
		l.insert(p)
	}
	if p.leads {
		l.follow(p, forecast, now)
	}
	p.close = !p.leads && forecast.Sub(now) <= lead
	p.forecast, p.heard, p.asking, p.leads, p.back = forecast, now, false, false, ""
}

// follow moves the forecasts of those behind a place, at its limit, as far as its own, but of those
// that know something newer. If it comes nearer, so do those before it: they ask soon anyway, and
// it is better to be early.
func (l *line) follow(p *place, forecast, now time.Time) {
	moved, heard, behind := forecast.Sub(p.forecast), p.heard, false
	for _, other := range l.places {
		behind = behind || other == p
		if other.limit == p.limit && !other.asking && !other.heard.After(heard) && (behind || moved < 0) {
			other.forecast, other.heard = other.forecast.Add(moved), now
		}
	}
}

// tooLate notes that a new call has neither turn nor place, as its turn would be too late. So would be
// that of others that have none either, whose deadlines are not later.
func (l *line) tooLate(turn time.Time, limit int, now time.Time) {
	l.asked--
	for i := len(l.waiting) - 1; i >= len(l.places)+l.asked; i-- {
		if l.misses(l.waiting[i], turn, limit, now) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
		}
	}
}

// unanswered notes that nothing is known of a place, or of so many new calls, that were asked for:
// they ask anew.
func (l *line) unanswered(p *place, fresh int) {
	l.touch()
	if p == nil {
		l.asked -= fresh
	} else {
		p.asking, p.leads = false, false
	}
}

// refuse ends the wait of the last call, for a place or a new call that was refused.
func (l *line) refuse(p *place, err error) {
	l.touch()
	if p == nil {
		l.asked--
	} else {
		l.remove(p)
	}
	if n := len(l.waiting); n > 0 {
		l.fail(l.waiting[n-1], err)
		l.waiting = l.waiting[:n-1]
	}
}

// overdue ends the waits of calls whose deadline comes before their turn, as far as their places
// say.
func (l *line) overdue(now time.Time) {
	for i := 0; i < len(l.needed()); {
		if l.misses(l.waiting[i], l.places[i].forecast, l.places[i].limit, now) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
		} else {
			i++
		}
	}
}
