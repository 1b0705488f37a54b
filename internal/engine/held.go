package engine

import (
	"context"
	"time"
)

// Held is a call that stands in the queue, or is booked, while nobody may wait for it. It is safe for
// concurrent use, but for Wait, which one may call at a time.
type Held struct {
	process *Process
	call    *Call
}

// Hold lets a call join the queue, and returns when it has a turn or a forecast. Where Redis is away
// that may be when its turn has come. Errors are those of Wait; the context is for the first answer only.
// The call refuses a turn after the deadline. A zero deadline means none.
func (p *Process) Hold(ctx context.Context, need Need, deadline time.Time) (*Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := NewCall(need)
	c.Deadline, c.Held = deadline, true
	p.join(c, false)
	select {
	case <-c.wake:
	case <-ctx.Done():
		p.giveUp(c)
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state == Failed {
		return nil, c.err
	}
	return &Held{p, c}, nil
}

// Due is when its turn comes, a forecast until that is given.
func (r *Held) Due() (due time.Time) {
	r.look(func(c *Call) { due = c.due })
	return due
}

// Given reports whether it was given a turn.
func (r *Held) Given() bool { return !r.Until().IsZero() }

// Until is until when its turn may be used; zero: it has none yet.
func (r *Held) Until() (until time.Time) {
	r.look(func(c *Call) {
		if c.turn != nil {
			until = c.turn.Until
		}
	})
	return until
}

// Slowest is the index of the limit that holds it back most.
func (r *Held) Slowest() (slowest int) {
	r.look(func(c *Call) { slowest = c.slowest })
	return slowest
}

// Booked reports whether it does not stand in the queue: its turn is too far away for that.
func (r *Held) Booked() (booked bool) {
	r.look(func(c *Call) { booked = c.state == Booked })
	return booked
}

// look looks at the call as it is now.
func (r *Held) look(at func(c *Call)) {
	r.process.mu.Lock()
	defer r.process.mu.Unlock()
	r.call.look()
	at(r.call)
}

// Take uses a turn that has come without a Wait; false: there is none.
func (r *Held) Take() (t Turn, ok bool) {
	r.process.step(func(e *Engine, now time.Time) {
		if ok = e.Take(now, r.call); ok {
			t = *r.call.turn
		}
	})
	if ok {
		r.process.happened(r.call.Need.Used(&t))
	}
	return t, ok
}

// Wait is Process.Wait for a call that is reserved. One that is booked joins the queue, and one whose
// turn was used is given another. If the context ends, the call keeps what it has.
func (r *Held) Wait(ctx context.Context) (Turn, error) { return r.WaitEarly(ctx, 0) }

// WaitEarly is Wait for a call that is made elsewhere: it returns up to early before the turn is due.
func (r *Held) WaitEarly(ctx context.Context, early time.Duration) (t Turn, err error) {
	r.process.step(func(e *Engine, now time.Time) { err = e.Resume(now, r.call) })
	if err != nil {
		return Turn{}, err
	}
	return r.process.await(ctx, r.call, early, true)
}

// Late lets the call ask anew, first of all, whose turn came too late to who was to make it. See
// Engine.Late.
func (r *Held) Late(way time.Duration, unused bool) (err error) {
	r.process.step(func(e *Engine, now time.Time) { err = e.Late(now, r.call, way, unused) })
	return err
}

// Cancel ends the call. It reports false if its turn was used.
func (r *Held) Cancel() (left bool) {
	r.process.step(func(e *Engine, now time.Time) { left = e.Cancel(now, r.call) })
	return left
}

// Book ends the call here: it is to come back under its ID, in the order that it had.
func (r *Held) Book() bool { return r.book(false) }

// Keep is Book for a call that may not come back: nobody waits for it.
func (r *Held) Keep() bool { return r.book(true) }

func (r *Held) book(unsure bool) bool {
	r.process.step(func(e *Engine, now time.Time) { e.Book(now, r.call, unsure) })
	return true
}

// Slots are those that the call holds; nil: none.
func (r *Held) Slots() (s *Slots) {
	r.look(func(c *Call) {
		if c.slots != nil && r.process.engine.holders[c] {
			s = &Slots{r.process, c, c.slots}
		}
	})
	return s
}

// Slots are those that a call holds, from its turn on. They are safe for concurrent use.
type Slots struct {
	process *Process
	call    *Call
	slots   *slots
}

// Release lets others have the slots. It does not wait for Redis; where that is away they are told when it
// is back.
func (s *Slots) Release() {
	released := false
	s.process.step(func(e *Engine, now time.Time) { released = s.call.slots == s.slots && e.Release(now, s.call) })
	if released {
		s.call.Need.each(func(p Part) {
			if p.Limit.HasSlots() {
				p.Limit.Name.Meter.Held(time.Since(s.slots.turn.Used))
			}
		})
	}
}

// Lost is closed when others have the slots, as the process was taken for dead, or as somebody has taken
// them away.
func (s *Slots) Lost() <-chan struct{} { return s.slots.lost }
