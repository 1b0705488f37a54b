package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// The script calls of this file serve one caller each: no batch shares them.

// Pause pauses some limits for a time. If keeps is true, stored permits stay.
func (p *Process) Pause(ctx context.Context, limits []*wire.Limit, d time.Duration, reason string, keeps bool) error {
	return p.pauses(ctx, limits, func(c *wire.Call) (wire.Reply, []time.Duration, error) {
		return wire.Pause(ctx, c, d, reason, keeps)
	})
}

// Stop is Pause for a hard stop: see wire.Stop.
func (p *Process) Stop(ctx context.Context, limits []*wire.Limit, d time.Duration, until time.Time, reason string, every time.Duration) error {
	return p.pauses(ctx, limits, func(c *wire.Call) (wire.Reply, []time.Duration, error) {
		return wire.Stop(ctx, c, d, until, reason, every)
	})
}

func (p *Process) pauses(ctx context.Context, limits []*wire.Limit, pause func(*wire.Call) (wire.Reply, []time.Duration, error)) error {
	var left []time.Duration
	return p.move(ctx, limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, left, err = pause(c)
		return reply, err
	}, func(e *Engine, now time.Time, micros int64) { e.HasPaused(now, limits, micros, left) })
}

// Probe asks whether a call may probe the hard stops of the limits, and returns what Resume takes: see wire.Probe. It
// returns nil if the call may not.
func (p *Process) Probe(ctx context.Context, limits []*wire.Limit, every time.Duration) (stops []int64, err error) {
	err = p.once(ctx, limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, stops, err = wire.Probe(ctx, c, every)
		return reply, err
	})
	if !slices.ContainsFunc(stops, func(stop int64) bool { return stop > wire.NotYet }) {
		stops = nil
	}
	return stops, err
}

// Prober returns a call that has its turn without Redis.
func (p *Process) Prober(need Need) *Call {
	c := NewCall(need)
	now := time.Now()
	c.Held, c.joined, c.turn = true, now, &Turn{Due: now, Until: now.Add(time.Minute), Used: now}
	c.end(Used)
	return c
}

// Resume ends pauses, or the stops that Probe has returned.
func (p *Process) Resume(ctx context.Context, limits []*wire.Limit, stops ...int64) error {
	return p.move(ctx, limits, func(c *wire.Call) (wire.Reply, error) { return wire.Resume(ctx, c, stops...) }, nil)
}

// Level sets how many permits are left of some limits, as wire.Level does.
func (p *Process) Level(ctx context.Context, limits []*wire.Limit, permits float64, raises wire.Raises) (left []int64, err error) {
	err = p.move(ctx, limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, left, err = wire.Level(ctx, c, permits, raises)
		return reply, err
	}, nil)
	return left, err
}

// Set puts another limit in force for a time. If d is 0, the limit is in force until it is set again.
func (p *Process) Set(ctx context.Context, limit *wire.Limit, terms wire.Terms, d time.Duration) error {
	return p.move(ctx, []*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) { return wire.Set(ctx, c, terms, d) }, nil)
}

// Reset undoes Set.
func (p *Process) Reset(ctx context.Context, limit *wire.Limit) error {
	return p.move(ctx, []*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) { return wire.Reset(ctx, c) }, nil)
}

// move makes a call that moves limits, and tells the engine at which time Redis moved them.
func (p *Process) move(ctx context.Context, limits []*wire.Limit, call func(*wire.Call) (wire.Reply, error), moved func(*Engine, time.Time, int64)) error {
	if err := p.engine.otherThan(limits...); err != nil {
		return err
	}
	if moved == nil {
		moved = func(e *Engine, now time.Time, micros int64) { e.HasMoved(now, limits, micros) }
	}
	var micros int64
	p.step(func(e *Engine, _ time.Time) { e.Moves(limits) })
	err := p.fitting(ctx, limits, func(c *wire.Call) (wire.Reply, error) {
		reply, err := call(c)
		micros = reply.Micros
		return reply, err
	})
	if err != nil {
		micros = 0
	}
	p.step(func(e *Engine, now time.Time) { moved(e, now, micros) })
	return err
}

// Planned tells the engine that limits have other plans, which Redis does not know yet.
func (p *Process) Planned(limits []*wire.Limit) {
	p.step(func(e *Engine, now time.Time) { e.Planned(now, limits) })
}

// Still keeps this process from making calls of some limits before a moment, while Redis is unreachable.
func (p *Process) Still(limits []*wire.Limit, until time.Time) {
	p.step(func(e *Engine, now time.Time) { e.Rest(now, limits, until) })
}

// Inspect returns the states of some limits, and changes nothing.
func (p *Process) Inspect(ctx context.Context, limits []*wire.Limit) (states []wire.State, err error) {
	err = p.fitting(ctx, limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, states, err = wire.Inspect(ctx, c)
		return reply, err
	})
	return states, err
}

// Free frees the slots that a call of some process holds, and reports whether it held any.
func (p *Process) Free(ctx context.Context, limit *wire.Limit, h wire.Holder) (freed bool, err error) {
	err = p.fitting(ctx, []*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) {
		c.Process = h.Process
		reply, left, err := wire.Leave(ctx, c, []wire.Left{{Place: h.Number, Cost: h.Cost, Free: true, Doing: h.Doing}})
		freed = freed || err == nil && left[0] > 0
		return reply, err
	})
	return freed, err
}

// Lend lets a lease hold the slots of a call, which then holds none: see lease of leave.lua. It reports false if the
// call holds none.
func (p *Process) Lend(ctx context.Context, c *Call, name, doing string, d time.Duration) (lent bool, err error) {
	number := int64(0)
	p.step(func(e *Engine, _ time.Time) {
		if e.holders[c] {
			number = c.slots.turn.Number
		}
	})
	if number == 0 {
		return false, nil
	}
	if lent, err = p.lease(ctx, &c.Need, "", wire.Left{Place: number, Doing: c.Need.Doing(), Lease: name + " " + doing, For: d}); lent {
		p.step(func(e *Engine, now time.Time) { e.Release(now, c) })
	}
	return lent, err
}

// Renew lets a lease go on for so long from now. It reports false if the slots are lost.
func (p *Process) Renew(ctx context.Context, need *Need, name, doing string, d time.Duration) (bool, error) {
	return p.lease(ctx, need, "", wire.Left{Doing: doing, Lease: name, For: d})
}

// EndLease frees the slots of a lease. It reports false if they were lost.
func (p *Process) EndLease(ctx context.Context, need *Need, name, doing string) (bool, error) {
	return p.lease(ctx, need, name, wire.Left{Place: 1, Doing: doing, Done: true})
}

// lease sends an item for each limit with slots, as a process. It reports whether all of them hold slots.
func (p *Process) lease(ctx context.Context, need *Need, process string, of wire.Left) (held bool, err error) {
	var limits []*wire.Limit
	var items []wire.Left
	need.each(func(part Part) {
		if part.Limit.HasSlots() {
			of.Limit, of.Cost = len(limits), part.Cost
			limits, items = append(limits, part.Limit), append(items, of)
		}
	})
	if len(items) == 0 {
		return false, nil
	}
	err = p.once(ctx, limits, func(c *wire.Call) (wire.Reply, error) {
		c.Process = cmp.Or(process, c.Process)
		reply, left, err := wire.Leave(ctx, c, items)
		held = err == nil && !slices.Contains(left, 0)
		return reply, err
	})
	return held, err
}

// Booking is a call that is made later, perhaps by another process.
type Booking struct {
	Need     Need      // It has an ID.
	Deadline time.Time // A call whose turn would come later is not booked. Zero: it has no deadline.

	Due time.Time // Book fills in a forecast of its turn …
	Err error     // … or the reason why it is not booked.
}

// mostBooked is the largest number of calls that one script call books: it has to take less than a millisecond.
const mostBooked = 10

// Book books calls in their order, and fills in their answers. If a script call fails, Book returns its error,
// and the bookings of that script call and all later ones fail with it.
func (p *Process) Book(ctx context.Context, bookings []Booking) error {
	var limits []*wire.Limit // one of each name
	for i := range bookings {
		bookings[i].Need.each(func(part Part) {
			if !slices.ContainsFunc(limits, func(l *wire.Limit) bool { return l.Name == part.Limit.Name }) {
				limits = append(limits, part.Limit)
			}
		})
	}
	for ; len(bookings) > 0; limits = nil {
		n := min(mostBooked, len(bookings))
		if err := p.bookSome(ctx, bookings[:n], limits); err != nil {
			for i := range bookings {
				bookings[i].Err = err
			}
			return err
		}
		bookings = bookings[n:]
	}
	return nil
}

// bookSome books calls by one script call, unless limits of other kinds are in force in place of those to look at.
func (p *Process) bookSome(ctx context.Context, bookings []Booking, looks []*wire.Limit) error {
	b := &Batch{index: map[string]int{}}
	p.step(func(e *Engine, now time.Time) {
		for i := range bookings {
			e.number++
			b.Items = append(b.Items, bookings[i].item(b, e.number, now))
		}
	})
	return p.ifFit(ctx, looks, b.limits, func(c *wire.Call) (wire.Reply, error) {
		reply, answers, err := wire.Ask(ctx, c, b.Items)
		now := time.Now()
		for i := range answers {
			for k := range answers[i].Count {
				a, booking := answers[i].At(k), &bookings[i]
				booking.Due, booking.Err = now.Add(a.Wait), a.Refused
				if a.Full {
					booking.Err = p.engine.cfg.Errors.Full(booking.Need.Parts()[a.Slowest].Limit, booking.Due)
				}
				if a.TooLate {
					booking.Err = p.engine.cfg.Errors.Missed(booking.Due, booking.Deadline, a.Slowest)
				}
			}
		}
		return reply, err
	})
}

// item returns the item by which a batch asks for the booking. number is the number of its call.
func (of *Booking) item(b *Batch, number int64, now time.Time) wire.Item {
	id := &wire.ID{Text: of.Need.ID, Patience: -time.Microsecond}
	if !of.Deadline.IsZero() {
		id.Latest = max(of.Deadline.Sub(now), time.Microsecond)
	}
	item := wire.Item{Count: 1, Number: number, Settles: of.Need.Settles, Flow: of.Need.Flow, ID: id}
	of.Need.each(func(p Part) {
		item.Parts = append(item.Parts, wire.Part{Limit: b.at(p.Limit), Cost: p.Cost})
	})
	return item
}

// Drop ends the booking of a call that will not be made, by its ID.
func (p *Process) Drop(ctx context.Context, need *Need) error {
	parts := need.Parts()
	left := make([]wire.Left, len(parts))
	for i, part := range parts {
		left[i] = wire.Left{Limit: i, ID: need.ID, Cost: part.Cost}
	}
	return p.once(ctx, limitsOf(parts), func(c *wire.Call) (wire.Reply, error) {
		reply, _, err := wire.Leave(ctx, c, left)
		return reply, err
	})
}

// fitting is once, but it makes no call if a limit of another kind is in force under a name. If no heartbeat
// has said that, it asks Redis first.
func (p *Process) fitting(ctx context.Context, limits []*wire.Limit, call func(*wire.Call) (wire.Reply, error)) error {
	return p.ifFit(ctx, limits, limits, call)
}

// ifFit is fitting, but it looks at other limits than those of the call.
func (p *Process) ifFit(ctx context.Context, fit, limits []*wire.Limit, call func(*wire.Call) (wire.Reply, error)) error {
	if err := p.engine.otherThan(limits...); err != nil {
		return err
	}
	return p.once(ctx, limits, func(c *wire.Call) (wire.Reply, error) {
		name, inForce, err := wire.Foreign(ctx, p.client, fit, p.engine.cfg.Dead)
		if err == nil && name != nil && p.engine.cfg.Errors.Kind != nil {
			err = p.engine.cfg.Errors.Kind(name, inForce)
		}
		if err != nil {
			return wire.Reply{}, err
		}
		return call(c)
	})
}

// once makes a script call that serves one caller until Redis answers, or counts as unreachable. The call has
// to be safe to repeat.
func (p *Process) once(ctx context.Context, limits []*wire.Limit, call func(*wire.Call) (wire.Reply, error)) error {
	for failures := 0; ; failures++ {
		err := p.try(ctx, limits, call)
		if errors.Is(err, wire.ErrAgain) && failures < 2 { // another plan, and the clock of its windows
			continue
		}
		if err == nil || !fault.Away(err) || ctx.Err() != nil {
			return err
		}
		over, pause := false, time.Duration(0)
		p.step(func(e *Engine, _ time.Time) { pause, over = e.TriesAgain(err, failures) })
		if over {
			return err
		}
		if !p.rest(ctx, pause) {
			if ctx.Err() != nil {
				return err
			}
			return p.engine.cfg.Errors.Closed
		}
	}
}

// try makes such a call one time, if the breaker lets it through.
func (p *Process) try(ctx context.Context, limits []*wire.Limit, call func(*wire.Call) (wire.Reply, error)) (err error) {
	c := &wire.Call{Client: p.client, Limits: limits}
	p.step(func(e *Engine, now time.Time) { err = e.Tries(now, c) })
	if err != nil {
		return err
	}
	sent := time.Now()
	reply, err := call(c)
	arrived := time.Now()
	p.step(func(e *Engine, now time.Time) { err = e.Tried(now, c, &reply, sent, arrived, err, ctx.Err() != nil) })
	return err
}

// rest lets a time pass. It reports false if the context ended meanwhile, or the Process was closed.
func (p *Process) rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-p.life.Done():
		return false
	}
}
