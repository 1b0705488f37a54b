package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// NotNow is the error of a call that does not wait, and is not due.
type NotNow struct {
	Wait time.Duration // until it could be, a forecast
}

func (n *NotNow) Error() string { return "not now, but in " + n.Wait.String() }

// deliver takes the answers of a batch to its lines.
func (e *Engine) deliver(b *Batch, r *Result, at time.Time, early time.Duration, now time.Time) {
	for i := range r.Answers {
		of := b.asks[i]
		if len(e.late.full) > 0 && of.place == nil { // it is noted again if it still is
			delete(e.late.full, of.line.need.key())
		}
		if len(of.line.places) > 0 {
			of.line.followPace(now)
		} else {
			of.line.pace = 0
		}
		if of.lease != nil {
			of.lease.isAsked()
		} else if missing := b.Items[i].Count - r.Answers[i].Count; missing > 0 { // they ask again
			of.line.unanswered(nil, missing)
		}
	}
	g := givenOf(b, r.Answers)
	micros := r.Reply.Micros
	turn := Turn{Process: e.cfg.Process, Given: micros, Ask: b.caller.Ask(), Early: early, Way: b.caller.Way + max(0, now.Sub(at))}
	for i := range r.Answers {
		item, of := &b.Items[i], b.asks[i]
		for k := range r.Answers[i].Count {
			answer, number := r.Answers[i].At(k), item.Number+int64(k)
			if !answer.Turn {
				e.answer(of, item, number, &answer, at.Add(answer.Wait), now)
				continue
			}
			if of.line.need.Limit.Spent != turn.Ask {
				of.line.spends(turn.Ask)
			}
			turn.Due, turn.Until = at.Add(answer.Wait), at.Add(answer.Until+Tolerance)
			turn.Moment = micros + (b.caller.Way + answer.Wait).Microseconds()
			if len(e.moves) > 0 && !e.stands(of.line, &turn, r.Sent) {
				e.tell(Event{What: Voided, N: 1, Need: &of.line.need})
				e.lose(of, number, 1)
				continue
			}
			turn.Number, turn.Tags, turn.Later = number, answer.Tags, answer.Wait > 0
			g.next(item, &turn)
			if of.lease != nil {
				of.lease.keep(&turn, item.Parts[0].Cost, e.answered.Add(trusted))
			} else {
				of.give(&turn, now)
			}
		}
		if of.lease != nil {
			e.ahead(of.lease, now)
		}
		if len(of.line.places) > 0 && of.line.pace == 0 {
			of.line.followPace(now)
		}
	}
}

// followPace moves forecasts where permits come at another pace than when they were told.
func (l *line) followPace(now time.Time) {
	if !l.need.Limit.Paced() {
		return
	}
	pace, _ := l.need.Limit.InForce()
	if l.pace > 0 && l.pace != pace {
		l.scale(now, pace/l.pace)
	}
	l.pace = pace
}

// answer takes an answer that is no turn to a line.
func (e *Engine) answer(of asked, item *wire.Item, number int64, answer *wire.Answer, forecast, now time.Time) {
	l := of.line
	switch {
	case errors.Is(answer.Refused, wire.ErrClock):
		e.lose(of, number, 1)
	case answer.Refused != nil:
		l.refuse(of.place, answer.Refused)
	case answer.TooLate:
		l.tooLate(later(forecast, item.Latest.Add(slop+time.Microsecond)), answer.Slowest, now)
	case answer.Full:
		l.refuse(of.place, e.isFull(l, l.parts[answer.Slowest].Limit, forecast, now))
	case answer.Booked:
		l.booked(forecast) // if it has left, its booking counts until others have passed it
	case item.Now:
		l.refuse(of.place, &NotNow{Wait: answer.Wait})
	case of.place == nil:
		l.placed(&place{number: number, tags: answer.Tags, limit: answer.Slowest}, forecast, now)
	default:
		l.waits(of.place, answer.Slowest, answer.Tags, forecast, now, e.clock.times(now).lead)
	}
}

// give takes a turn to the line that asked for it, and keeps no pointer to it.
func (of *asked) give(t *Turn, now time.Time) {
	if of.place == nil {
		of.line.granted(t, now)
	} else {
		of.line.reached(of.place, t, now)
	}
}

// lose notes that nothing is known of so many calls that were asked for, from a number on. New ones
// ask under other numbers, so slots that they were given are let go.
func (e *Engine) lose(of asked, number int64, count int) {
	switch {
	case of.lease != nil:
		of.lease.isAsked()
	case of.place != nil:
		of.line.unanswered(of.place, 0)
	default:
		of.line.unanswered(nil, count)
		for i := range count {
			if of.line.slots != nil {
				of.line.done = append(of.line.done, &Turn{Number: number + int64(i)})
			}
		}
	}
}

// mostAlike is how many calls of an item a script answers at most.
const mostAlike = 16

// mayStand notes that new calls which failed may have places in Redis, as the reply to their ask is not known.
func (of *asked) mayStand(item *wire.Item) {
	if of.lease != nil || of.place != nil || of.line.slots != nil || item.Now {
		return
	}
	for i := range min(item.Count, mostAlike) {
		of.line.done = append(of.line.done, &Turn{Number: item.Number + int64(i)})
	}
}

// given is what an ask was given of each of its limits.
type given []struct {
	turns   int
	permits int64 // As far as they were counted. When all were, those that did not go back.
	spent   int64 // Of those, at the least: see Turn.
}

func givenOf(b *Batch, answers []wire.Answers) given {
	g := make(given, len(b.limits))
	for i := range answers {
		turns := answers[i].Turns()
		for _, p := range b.Items[i].Parts {
			g[p.Limit].turns += turns
		}
	}
	return g
}

// next counts a turn, and notes in it what the ask was given with it. A turn of several limits does
// not go back if there are others: so those before it must not, either.
func (g given) next(item *wire.Item, t *Turn) {
	t.Alone = true
	for _, p := range item.Parts {
		of := &g[p.Limit]
		of.permits += p.Cost
		t.Alone = t.Alone && of.turns == 1
		if len(item.Parts) > 1 {
			of.spent = of.permits
		}
	}
	first := &g[item.Parts[0].Limit]
	t.Permit, t.spent, t.out = first.permits, &first.spent, &first.permits
}

// This file is what a line does with the answers to what it has asked for.

// placed notes that a new call has a place.
func (l *line) placed(p *place, forecast, now time.Time) {
	l.asked--
	p.since, p.forecast, p.heard, p.stale = now, forecast, now, l.stale > 0
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
	if tags == nil {
		tags = p.tags
	}
	if p.limit != limit { // what it hears there says nothing of those that wait where it was
		p.leads = false
	}
	if tag := p.tag(); tag == tags[limit] {
		p.limit, p.tags = limit, tags
	} else if l.remove(p) {
		p.limit, p.tags = limit, tags
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
