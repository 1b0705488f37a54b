package asker

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// out is the answer to one call of a flight.
type out struct {
	item, k int
	wire.Answer
}

// deliver takes the answers of a flight to the queues. The Asker must be locked.
func (a *Asker) deliver(f *flight, outs []out, micros int64, at time.Time) {
	now := time.Now()
	t := a.clock.now(now)
	given := make([]given, len(f.limits))
	answered := make([]int, len(f.items))
	for i := range outs {
		answered[outs[i].item]++
		if outs[i].Turn {
			for _, p := range f.items[outs[i].item].Parts {
				given[p.Limit].turns++
			}
		}
	}
	for _, ask := range f.asks {
		ask.kind.follow(now)
	}
	turns := make([]queue.Turn, 0, len(outs))
	name := f.caller.Ask()
	for i, n := range answered { // the others ask again
		f.asks[i].kind.queue.Lost(queue.Ask{New: f.items[i].Count - n})
	}
	for i := range outs {
		o := &outs[i]
		item, ask := &f.items[o.item], f.asks[o.item]
		q := &ask.kind.queue
		number := item.Number + int64(o.k)
		switch {
		case o.Refused != nil:
			a.watch(Event{What: Refused, N: 1, Need: &ask.kind.need, Err: o.Refused})
			q.Refuse(ask.place, o.Refused)
		case o.Turn:
			turns = append(turns, queue.Turn{
				Due: at.Add(o.Wait), Until: at.Add(o.Until + Tolerance), Process: a.process, Number: number, Tags: o.Tags,
				Given: micros, Ask: name, Alone: true,
			})
			turn := &turns[len(turns)-1]
			for _, p := range item.Parts {
				given[p.Limit].permits += p.Cost
				turn.Alone = turn.Alone && given[p.Limit].turns == 1
			}
			turn.Permit = given[item.Parts[0].Limit].permits
			if ask.place == nil {
				q.Granted(turn, now)
			} else {
				q.Reached(ask.place, turn, now)
			}
		case item.Now:
			q.Refuse(nil, &NotNow{Wait: o.Wait})
		case ask.place == nil:
			q.Placed(&queue.Place{Number: number, Tags: o.Tags}, at.Add(o.Wait), now)
		default:
			q.Moved(ask.place, at.Add(o.Wait), now, t.lead)
		}
	}
}

// given is what an ask was given of one limit.
type given struct {
	turns   int
	permits int64
}

// NotNow is the error of a call that does not wait, and is not due.
type NotNow struct {
	Wait time.Duration // until it could be, a forecast
}

func (n *NotNow) Error() string { return "not now, but in " + n.Wait.String() }

// lose notes that nothing is known of what was asked for. The Asker must be locked.
func (a *Asker) lose(asked ask, count int) {
	if asked.place == nil {
		asked.kind.queue.Lost(queue.Ask{New: count})
	} else {
		asked.kind.queue.Lost(queue.Ask{Places: []*queue.Place{asked.place}})
	}
}

// fail ends the waits of those that asked in vain. The Asker must be locked.
func (a *Asker) fail(f *flight, err error) {
	for i, ask := range f.asks {
		for range f.items[i].Count {
			ask.kind.queue.Refuse(ask.place, err)
		}
	}
}
