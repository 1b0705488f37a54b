package engine

import (
	"context"
	"time"
)

// This file is what a Process does for calls that somebody holds: they stand in the queue, or are booked,
// whether anybody waits for them or not. Each method is safe for concurrent use, but only one Wait at a time
// may be for a call.

// Hold lets a call join the queue, and returns when it has a turn or a forecast. Where Redis is away
// that may be when its turn has come. Errors are those of Wait; the context is for the first answer only.
// The call refuses a turn after the deadline. A zero deadline means none.
func (p *Process) Hold(ctx context.Context, need Need, deadline time.Time) (*Call, error) {
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
	return c, nil
}

// View is how a call stands at a moment.
type View struct {
	State   State
	Due     time.Time       // When its turn comes: a forecast until it is given.
	Slowest int             // The index of the limit that holds it back most.
	Turn    *Turn           // Nil: it has none. Used and Waited may be read of a turn that was used.
	Lost    <-chan struct{} // It is closed when others have the slots that the call holds. Nil: it holds none.
}

// View returns how a call stands.
func (p *Process) View(c *Call) View {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.look()
	v := View{State: c.state, Due: c.due, Slowest: c.slowest, Turn: c.turn}
	if p.engine.holders[c] {
		v.Lost = c.slots.lost
	}
	return v
}

// Until is until when the turn of the call may be used; zero: it has none.
func (v *View) Until() time.Time {
	if v.Turn == nil {
		return time.Time{}
	}
	return v.Turn.Until
}

// WaitFor is Wait for a call that is held. It returns up to early before the turn is due. A call that is
// booked joins the queue, and one whose turn was used is given another. If the context ends, the call
// keeps what it has.
func (p *Process) WaitFor(ctx context.Context, c *Call, early time.Duration) (t Turn, err error) {
	p.step(func(e *Engine, now time.Time) { err = e.Resume(now, c) })
	if err != nil {
		return Turn{}, err
	}
	return p.await(ctx, c, early, true)
}

// Take uses a turn that has come without a Wait, and returns the turn that the call has used; nil: none.
func (p *Process) Take(c *Call) (used *Turn) {
	taken := false
	p.step(func(e *Engine, now time.Time) {
		if taken = e.Take(now, c); c.state == Used {
			used = c.turn
		}
	})
	if taken {
		p.happened(c.Need.Used(used))
	}
	return used
}

// Late lets a call ask anew, first of all, whose turn came too late to who was to make it. See
// Engine.Late.
func (p *Process) Late(c *Call, way time.Duration, unused bool) (err error) {
	p.step(func(e *Engine, now time.Time) { err = e.Late(now, c, way, unused) })
	return err
}

// Cancel ends a call, and reports whether it did, as its turn was not used and the call had not ended before.
// The booking of one that was booked is to be ended, too.
func (p *Process) Cancel(c *Call) (booked, ended bool) {
	p.step(func(e *Engine, now time.Time) {
		booked = c.state == Booked
		ended = e.Cancel(now, c)
	})
	return booked, ended
}

// Restore undoes the Cancel of a call that was booked, as its booking could not be ended.
func (p *Process) Restore(c *Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.state = Booked
}

// PutBack ends a call here: it is to come back under its ID, in the order that it had. If that is unsure, nobody
// waits for it.
func (p *Process) PutBack(c *Call, unsure bool) {
	p.step(func(e *Engine, now time.Time) { e.Book(now, c, unsure) })
}

// Release lets others have the slots of a call, if it holds any. It does not wait for Redis; where that is
// away others are told when it is back.
func (p *Process) Release(c *Call) {
	released, since := false, time.Duration(0)
	p.step(func(e *Engine, now time.Time) {
		if released = e.Release(now, c); released {
			since = now.Sub(c.slots.turn.Used)
		}
	})
	if released {
		c.Need.each(func(of Part) {
			if of.Limit.HasSlots() {
				of.Limit.Name.Meter.Held(since)
			}
		})
	}
}
