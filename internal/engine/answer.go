package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file hands the answers of a batch to its calls: turns, places and refusals.

// NotNow is the error of a call that does not wait, and is not due.
type NotNow struct {
	Wait time.Duration // until it could be made: a forecast
}

func (n *NotNow) Error() string { return "not now, but in " + n.Wait.String() }

// deliver hands the answers of a batch to its lines.
func (e *Engine) deliver(b *Batch, r *Result, at time.Time, early time.Duration, now time.Time) {
	for i := range r.Answers {
		of := b.asks[i]
		if len(e.refusals.full) > 0 && of.place == nil { // it is noted again if the queue is still full
			delete(e.refusals.full, of.line.need.key())
		}
		if len(of.line.places) > 0 {
			of.line.followPace(now)
		} else {
			of.line.pace = 0
		}
		if of.lease != nil {
			of.lease.isAsked()
		} else if missing := b.Items[i].Count - answered(&b.Items[i], &r.Answers[i]); missing > 0 { // they ask again
			of.line.unanswered(nil, missing)
		}
	}
	g := givenOf(b, r.Answers)
	micros := r.Reply.Micros
	turn := Turn{Process: e.cfg.Process, Given: micros, Ask: b.caller.Ask(), Early: early, Way: b.caller.Way + max(0, now.Sub(at))}
	for i := range r.Answers {
		item, of := &b.Items[i], b.asks[i]
		for k := range answered(item, &r.Answers[i]) {
			answer, number := r.Answers[i].At(min(k, r.Answers[i].Count-1)), item.Number+int64(k)
			if !answer.Turn {
				e.answer(of, item, number, &answer, micros, at.Add(answer.Wait), now)
				continue
			}
			if of.line.need.Limit.Spent != turn.Ask {
				of.line.spends(turn.Ask)
			}
			turn.Due, turn.Until = at.Add(answer.Wait), at.Add(answer.Until+Tolerance)
			if b.kept && now.Sub(turn.Due) > e.mayBeKept(of.line, now) { // it is late on purpose: the next turn may come in time
				turn.Until = turn.keptUntil()
			}
			turn.Moment = micros + (b.caller.Way + answer.Wait).Microseconds()
			for _, p := range of.line.parts { // no call is late beyond the edge of a window
				if edge := p.Limit.Edge(turn.Moment); edge > 0 {
					turn.Until = earlier(turn.Until, e.clock.soonest(edge))
				}
			}
			if !e.clock.sure() || len(e.moves) > 0 && !e.stands(of.line, &turn, r.Sent) { // after a step of Redis's clock, it is not known when a turn is due
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

// answered returns how many calls of an item have answers. If a call that does not wait is not due, the calls behind it,
// which need the same, are not due either.
func answered(item *wire.Item, a *wire.Answers) int {
	if n := a.Count; n == 0 || !item.Now || a.At(n-1).Turn {
		return n
	}
	return item.Count
}

// mayBeKept returns how late a turn may be that was kept: as late as clocks and timers make others, or a hundredth
// of the time that one permit takes.
func (e *Engine) mayBeKept(l *line, now time.Time) time.Duration {
	perSecond, _ := l.need.Limit.Pace(now)
	return max((slop+min(slop, e.clock.times(now).fastest))/2, time.Duration(float64(time.Second)/100/perSecond))
}

// followPace moves the forecasts of a line if its limit has another pace than when they were made.
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

// answer hands an answer without a turn to a line. micros is its time, by Redis's clock.
func (e *Engine) answer(of asked, item *wire.Item, number int64, answer *wire.Answer, micros int64, forecast, now time.Time) {
	l := of.line
	switch {
	case errors.Is(answer.Refused, wire.ErrAgain):
		e.lose(of, number, 1)
		if of.place != nil { // its forecast is that of the limit before
			of.place.close, of.place.stale = false, true
		}
	case answer.Refused != nil:
		if of.place != nil { // the calls behind it move up
			l.done = append(l.done, &Turn{Number: number})
		}
		l.refuse(of.place, answer.Refused)
	case answer.TooLate:
		l.tooLate(later(forecast, item.Latest.Add(slop+time.Microsecond)), answer.Slowest, now)
	case answer.Full:
		l.refuse(of.place, e.isFull(l, l.parts[answer.Slowest].Limit, forecast, now))
	case answer.Booked:
		l.booked(forecast) // if the call has left, its booking counts until others have passed it
	case item.Now:
		l.refuse(of.place, &NotNow{Wait: answer.Wait})
	case of.place == nil:
		// Calls of several limits get no turn within the lead where that would cost another limit permits.
		near := len(l.parts) > 1 && forecast.Sub(now) <= e.clock.times(now).lead
		l.placed(&place{number: number, tags: answer.Tags, limit: answer.Slowest, close: near}, micros, forecast, now)
	default:
		of.place.stale = of.place.stale && micros <= of.place.news && (of.place.at < 0 || of.place.at == answer.Slowest)
		l.waits(of.place, answer.Slowest, answer.Tags, forecast, now, e.clock.times(now).lead)
	}
}

// give hands a turn to the line that asked for it, and keeps no pointer to it.
func (of *asked) give(t *Turn, now time.Time) {
	if of.place == nil {
		of.line.granted(t, now)
	} else {
		of.line.reached(of.place, t, now)
	}
}

// lose handles calls that were asked for, and of which nothing is known. Their numbers begin with number. They
// ask again under other numbers, so slots that they were given are freed.
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

// mostAlike is the largest number of calls that a script answers for one item.
const mostAlike = 16

// mayStand notes that new calls which failed may have places in Redis, because the reply to their ask is not
// known.
func (of *asked) mayStand(item *wire.Item) {
	if of.lease != nil || of.place != nil || of.line.slots != nil || item.Now {
		return
	}
	for i := range min(item.Count, mostAlike) {
		of.line.done = append(of.line.done, &Turn{Number: item.Number + int64(i)})
	}
}

// given is what an ask was given, by limit.
type given []struct {
	turns   int
	permits int64 // The permits that were counted so far. After the last turn: the permits that were not returned.
	spent   int64 // How many of them were used, at the least: see Turn.
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

// next counts a turn, and notes in it what the ask was given up to it. A turn of several limits cannot be
// returned if the ask was given other turns. So turns before it must not be returned, either.
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

// The methods below handle the answers to what a line has asked for.

// placed notes that a new call has a place.
func (l *line) placed(p *place, micros int64, forecast, now time.Time) {
	l.asked--
	p.since, p.forecast, p.heard, p.stale = now, forecast, now, l.stale > 0 && micros <= l.news
	if l.stale = min(l.asked, max(0, l.stale-1)); l.stale == 0 {
		l.news = 0
	}
	l.insert(p)
	if n := len(l.places); n <= len(l.waiting) && l.waiting[n-1].Held {
		l.wake(l.waiting[n-1])
	}
}

// booked notes that a new call was booked: it does not wait here, and is to come back for its turn.
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

// reached notes that a place was given a turn. If the turn seemed too far away for that, permits come sooner
// than forecast: the next places ask at once.
func (l *line) reached(p *place, t *Turn, now time.Time) {
	l.remove(p)
	if p.far && !l.atSlots(p.limit) {
		l.hasten(p.limit, growth)
	}
	t.Placed, t.Slowest = true, p.limit
	l.give(t, now)
}

// hasten makes n more places at a limit ask at once, the first ones first.
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

// waits notes the answer to a place that was given no turn: it waits at that limit, with those tags, and has
// another forecast. The tags may have changed, because a call may come forward.
func (l *line) waits(p *place, limit int, tags []int64, forecast, now time.Time, lead time.Duration) {
	if tags == nil {
		tags = p.tags
	}
	from := p.limit
	if p.limit != limit { // the new forecast says nothing about the places that wait where it was
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
	if from != limit && l.slots == nil { // the places behind it go there as well: Redis need not call each of them
		l.hasten(from, growth)
	}
	p.close = !p.leads && forecast.Sub(now) <= lead
	p.forecast, p.heard, p.asking, p.leads, p.back = forecast, now, false, false, ""
}

// follow moves the forecasts of the places behind a place, at its limit, as far as its own forecast moves.
// Newer forecasts stay. If the forecast comes nearer, the forecasts before it do so, too: these places ask soon
// anyway, and it is better to be early.
func (l *line) follow(p *place, forecast, now time.Time) {
	moved, heard, behind := forecast.Sub(p.forecast), p.heard, false
	for _, other := range l.places {
		behind = behind || other == p
		if other.limit == p.limit && !other.asking && !other.heard.After(heard) && (behind || moved < 0) {
			other.forecast, other.heard = other.forecast.Add(moved), now
		}
	}
}

// tooLate notes that a new call has neither turn nor place, because its turn would be too late. It fails that
// call, and other new calls for which the turn would be too late.
func (l *line) tooLate(turn time.Time, limit int, now time.Time) {
	l.asked--
	for i := len(l.waiting) - 1; i >= len(l.places)+l.asked; i-- {
		if l.misses(l.waiting[i], turn, limit, now) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
		}
	}
}

// unanswered notes that nothing is known of a place, or of some new calls, that were asked for: they ask again.
func (l *line) unanswered(p *place, fresh int) {
	l.touch()
	if p == nil {
		l.asked -= fresh
	} else {
		p.asking, p.leads = false, false
	}
}

// refuse removes a place, or a new call, that was refused. It fails the last waiting call. If the calls
// of the line do not wait, it fails the first one, which has asked.
func (l *line) refuse(p *place, err error) {
	l.touch()
	if p == nil {
		l.asked--
	} else {
		l.remove(p)
	}
	switch n := len(l.waiting); {
	case n == 0:
	case l.need.Now:
		l.fail(l.pop(), err)
	default:
		l.fail(l.waiting[n-1], err)
		l.waiting = l.waiting[:n-1]
	}
}

// overdue fails the calls whose deadlines come before the forecasts of their places.
func (l *line) overdue(now time.Time) {
	for i := 0; i < len(l.needed()); {
		if l.misses(l.waiting[i], l.places[i].forecast, l.places[i].limit, now) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
		} else {
			i++
		}
	}
}
