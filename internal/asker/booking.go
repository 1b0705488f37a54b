package asker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Booking is a call that is made later, perhaps by another process.
type Booking struct {
	Need     Need      // with an ID
	Deadline time.Time // one whose turn would come later is not booked; zero: any is

	Due time.Time // the answer: its turn, a forecast
	Err error     // or why it is not booked
}

// forever is the patience of a call that waits in its process whatever happens.
const forever = 100 * 365 * 24 * time.Hour

// atOnce is how many calls one script books: it is to take less than a millisecond.
const atOnce = 10

// Book books calls, in their order, and fills in their answers. The error is that of Redis;
// those behind it are not booked then.
func (a *Asker) Book(ctx context.Context, bookings []Booking) error {
	for len(bookings) > 0 {
		n := min(atOnce, len(bookings))
		if err := a.bookSome(ctx, bookings[:n]); err != nil {
			for i := range bookings {
				bookings[i].Err = err
			}
			return err
		}
		bookings = bookings[n:]
	}
	return nil
}

func (a *Asker) bookSome(ctx context.Context, bookings []Booking) error {
	f := &flight{index: map[string]int{}}
	now := time.Now()
	for i := range bookings {
		b := &bookings[i]
		id := &wire.ID{Text: b.Need.ID, Patience: -time.Microsecond}
		if !b.Deadline.IsZero() {
			id.Latest = max(b.Deadline.Sub(now), time.Microsecond)
		}
		item := wire.Item{Count: 1, Number: a.number.Add(1), Settles: b.Need.Settles, Flow: b.Need.Flow, ID: id}
		for _, p := range b.Need.parts() {
			item.Parts = append(item.Parts, wire.Part{Limit: f.at(p.Limit), Cost: p.Cost})
		}
		f.items = append(f.items, item)
	}
	return a.once(ctx, f.limits, func(c *wire.Call) (wire.Reply, error) {
		reply, answers, err := wire.Ask(ctx, c, f.items)
		for i := range answers {
			for k := range answers[i].Count {
				bookings[i].hear(answers[i].At(k), a.cfg.Errors.Missed)
			}
		}
		return reply, err
	})
}

func (b *Booking) hear(answer wire.Answer, missed func(turn, deadline time.Time, slowest int) error) {
	b.Due, b.Err = time.Now().Add(answer.Wait), answer.Refused
	if answer.TooLate {
		b.Err = missed(b.Due, b.Deadline, answer.Slowest)
	}
}

// Drop ends the booking with the ID of a call that will not be made.
func (a *Asker) Drop(ctx context.Context, need Need) error {
	parts := need.parts()
	left := make([]wire.Left, len(parts))
	for i, p := range parts {
		left[i] = wire.Left{Limit: i, ID: need.ID, Cost: p.Cost}
	}
	return a.once(ctx, limitsOf(parts), func(c *wire.Call) (wire.Reply, error) {
		reply, _, err := wire.Leave(ctx, c, left)
		return reply, err
	})
}

// loadBooked takes in what becomes of the ID of a call that leaves; tags are those that it
// had. Where it is booked and expected, it counts at the limit that held it back most.
func (f *flight) loadBooked(k *kind, number int64, tags []int64, slowest int) {
	for i, part := range k.parts {
		left := wire.Left{Limit: f.at(part.Limit), Place: number, ID: k.need.ID, Cost: part.Cost, Flow: k.need.Flow}
		if k.books {
			if left.Tag = -tags[i]; i == slowest && !k.unsure {
				left.Tag = tags[i]
			}
		}
		f.left = append(f.left, left)
	}
}

// idOf is what an item says of a call with an ID: one that has a place keeps that.
func (k *kind) idOf(place *queue.Place) *wire.ID {
	switch {
	case k.need.ID == "":
		return nil
	case place != nil:
		return &wire.ID{Text: k.need.ID, Patience: forever}
	default:
		return &wire.ID{Text: k.need.ID, Patience: k.need.Patience}
	}
}
