package engine

import (
	"errors"
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
		if len(of.line.places) > 0 {
			of.line.followPace(now)
		} else {
			of.line.pace = 0
		}
		if of.lease != nil {
			of.lease.asked = false
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
			turn.Due, turn.Until = at.Add(answer.Wait), at.Add(answer.Until+Tolerance)
			turn.Moment = micros + (b.caller.Way + answer.Wait).Microseconds()
			if len(e.moves) > 0 && !e.stands(of.line, &turn, r.Sent) {
				e.tell(Event{What: Voided, N: 1, Need: &of.line.need})
				e.lose(of, number, 1)
				continue
			}
			turn.Number, turn.Tags, turn.Later = number, answer.Tags, answer.Wait > 0
			g.next(item, &turn)
			of.give(&turn, now)
		}
		if of.lease != nil {
			of.lease.serve(of.line, now)
			e.watchBurst(of.lease, now)
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
		e.tell(Event{What: Refused, N: 1, Need: &l.need, Err: answer.Refused})
		l.refuse(of.place, answer.Refused)
	case answer.TooLate:
		l.tooLate(later(forecast, item.Latest.Add(slop+time.Microsecond)), answer.Slowest, now)
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

// give takes a turn to the line or the lease that asked for it, and keeps no pointer to it.
func (of *asked) give(t *Turn, now time.Time) {
	switch {
	case of.lease != nil:
		of.lease.keep(t)
	case of.place == nil:
		of.line.granted(t, now)
	default:
		of.line.reached(of.place, t, now)
	}
}

// lose notes that nothing is known of so many calls that were asked for, from a number on. New ones
// ask under other numbers, so slots that they were given are let go.
func (e *Engine) lose(of asked, number int64, count int) {
	switch {
	case of.lease != nil:
		of.lease.asked = false
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
