package asker

import (
	"errors"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// deliver takes the answers of a flight to the queues. The Asker must be locked.
func (a *Asker) deliver(f *flight, answers []wire.Answers, micros int64, at time.Time, early time.Duration) {
	now := time.Now()
	t := a.clock.now(now)
	for i := range answers {
		asked := f.asks[i]
		asked.kind.follow(now)
		if asked.lease == nil { // those that were not answered ask again
			asked.kind.queue.Lost(queue.Ask{New: f.items[i].Count - answers[i].Count})
		} else {
			asked.lease.asked = false
		}
	}
	g := f.given(answers)
	turn := queue.Turn{Process: a.process, Given: micros, Ask: f.caller.Ask(), Early: early, Way: f.caller.Way + max(0, now.Sub(at))}
	for i := range answers {
		item, asked := &f.items[i], f.asks[i]
		for k := range answers[i].Count {
			answer := answers[i].At(k)
			number := item.Number + int64(k)
			if answer.Turn {
				turn.Due, turn.Until = at.Add(answer.Wait), at.Add(answer.Until+Tolerance)
				turn.Moment = micros + (f.caller.Way + answer.Wait).Microseconds()
				if !a.overtakenBy(asked.kind, &turn, f.sent) {
					a.watch(Event{What: Voided, N: 1, Need: &asked.kind.need})
					a.lose(asked, number, 1)
					continue
				}
				turn.Number, turn.Tags, turn.Later = number, answer.Tags, answer.Wait > 0
				g.next(item, &turn)
				asked.give(&turn, now)
				continue
			}
			a.tell(asked, item, number, &answer, at.Add(answer.Wait), now, t)
		}
		if asked.lease != nil {
			asked.lease.serve(asked.kind, now)
			a.watchFor(asked.lease)
		}
	}
}

// tell takes an answer that is no turn to the queue.
func (a *Asker) tell(asked ask, item *wire.Item, number int64, answer *wire.Answer, forecast, now time.Time, t times) {
	q := &asked.kind.queue
	switch {
	case errors.Is(answer.Refused, wire.ErrClock):
		a.lose(asked, number, 1)
	case answer.Refused != nil:
		a.watch(Event{What: Refused, N: 1, Need: &asked.kind.need, Err: answer.Refused})
		q.Refuse(asked.place, answer.Refused)
	case answer.TooLate:
		q.TooLate(later(forecast, item.Latest.Add(slop+time.Microsecond)), answer.Slowest)
	case answer.Booked:
		q.Booked(forecast) // if it has left, its booking counts until others have passed it
	case item.Now:
		q.Refuse(asked.place, &NotNow{Wait: answer.Wait})
	case asked.place == nil:
		q.Placed(&queue.Place{Number: number, Tags: answer.Tags, Slowest: answer.Slowest}, forecast, now)
	default:
		q.Waits(asked.place, answer.Slowest)
		q.Retag(asked.place, answer.Tags)
		q.Moved(asked.place, forecast, now, t.lead)
	}
}

// give takes a turn to those who asked for it, and keeps no pointer to it.
func (asked ask) give(turn *queue.Turn, now time.Time) {
	switch {
	case asked.lease != nil:
		asked.lease.keep(turn)
	case asked.place == nil:
		asked.kind.queue.Granted(turn, now)
	default:
		asked.kind.queue.Reached(asked.place, turn, now)
	}
}

// given is what an ask was given of each of its limits.
type given []struct {
	turns   int
	permits int64 // as far as it was counted; when it was, those that did not go back
	spent   int64 // of those, as far as is known: see queue.Turn
}

func (f *flight) given(answers []wire.Answers) given {
	g := make(given, len(f.limits))
	for i := range answers {
		turns := answers[i].Turns()
		for _, p := range f.items[i].Parts {
			g[p.Limit].turns += turns
		}
	}
	return g
}

// next counts a turn, and notes in it what the ask was given with it. One of several limits
// does not go back if there are others: so those before it must not, either.
func (g given) next(item *wire.Item, t *queue.Turn) {
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
	t.Permit, t.Spent, t.Out = first.permits, &first.spent, &first.permits
}

// NotNow is the error of a call that does not wait, and is not due.
type NotNow struct {
	Wait time.Duration // until it could be, a forecast
}

func (n *NotNow) Error() string { return "not now, but in " + n.Wait.String() }

// lose notes that nothing is known of what was asked for: so many calls, from a number on. New ones
// ask under other numbers, so slots that they were given are let go. The Asker must be locked.
func (a *Asker) lose(asked ask, number int64, count int) {
	q := &asked.kind.queue
	switch {
	case asked.lease != nil:
		asked.lease.asked = false
	case asked.place == nil:
		q.Lost(queue.Ask{New: count})
		for i := range count {
			if q.Slots != nil {
				q.Done(&queue.Turn{Number: number + int64(i)})
			}
		}
	default:
		q.Lost(queue.Ask{Places: []*queue.Place{asked.place}})
	}
}

// fail ends the waits of those that asked in vain. The Asker must be locked.
func (a *Asker) fail(f *flight, err error) {
	for i, ask := range f.asks {
		if ask.lease != nil {
			ask.lease.asked = false
			continue
		}
		for range f.items[i].Count {
			ask.kind.queue.Refuse(ask.place, err)
		}
	}
}
