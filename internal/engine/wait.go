package engine

import (
	"context"
	"time"
)

// Wait returns when the call has its turn: it is to be made now. Errors are those of the context, of
// Config.Errors, and of Redis's refusals. Of a turn that comes with an error only Waited is set, if
// that.
func (p *Process) Wait(ctx context.Context, need Need) (Turn, error) {
	if err := ctx.Err(); err != nil {
		return Turn{}, err
	}
	if need.leases() {
		t, ok, few := need.draw(time.Now())
		if few {
			limit := need.Limit
			p.step(func(e *Engine, now time.Time) { e.askAhead(limit, now) })
		}
		if ok {
			need.used(&t)
			return t, nil
		}
	}
	c, _ := p.calls.Get().(*Call)
	deadline, _ := ctx.Deadline()
	if need.Now {
		deadline = time.Time{} // it is made as soon as Redis says so
	}
	c.reset(need, deadline)
	p.join(c, ctx.Done() == nil)
	t, err := p.await(ctx, c, 0, false)
	if c.over.Load() {
		p.calls.Put(c)
	}
	return t, err
}

// await blocks until a call uses its turn, up to early before it is due, or has failed. Where the context
// ends first, a call that is held keeps what it has; another one gives up. now says to look at the call
// before it is woken.
func (p *Process) await(ctx context.Context, c *Call, early time.Duration, now bool) (Turn, error) {
	var timer timer
	defer timer.stop()
	for {
		if now {
			left, t, err := p.look(c, early)
			if err != nil {
				return Turn{}, err
			}
			if left == 0 {
				c.Need.used(&t)
				return t, nil
			}
			timer.set(left)
		}
		now = true
		if c.sleep(ctx.Done(), timer.rings) {
			continue
		}
		if c.Held {
			return Turn{}, ctx.Err()
		}
		if waited, left := p.giveUp(c); left {
			return Turn{Waited: waited}, ctx.Err()
		}
	}
}

// look returns in which time the turn of a call is due, below 0 if it has none; 0: the call uses it.
func (p *Process) look(c *Call, early time.Duration) (left time.Duration, t Turn, err error) {
	if !c.Held && c.over.Load() { // then the call is ours, and there is no need to lock
		now := time.Now()
		if c.state == Failed {
			return 0, Turn{}, c.err
		}
		if !now.After(c.turn.Until) {
			if c.turn == &c.own { // it was due when it was given
				c.uses(now)
			}
			return 0, *c.turn, nil
		}
	}
	p.mu.Lock()
	now := time.Now()
	if left, err = p.engine.Look(now, c, early); left == 0 && err == nil {
		t = *c.turn
	}
	if p.engine.calm() { // most often nothing follows from it
		p.mu.Unlock()
		return left, t, err
	}
	r := p.ready(now)
	p.mu.Unlock()
	p.act(r, false)
	return left, t, err
}

// giveUp ends the wait of a call, and reports false if that is over.
func (p *Process) giveUp(c *Call) (waited time.Duration, left bool) {
	p.step(func(e *Engine, now time.Time) { waited, left = c.waited(now), e.Leave(now, c) })
	return waited, left
}

// sleep waits for a signal to the call, or for a timer. It reports false if the context has ended first.
func (c *Call) sleep(done <-chan struct{}, rings <-chan time.Time) bool {
	if done == nil && rings == nil { // a plain receive takes a third of the time
		<-c.wake
		return true
	}
	select {
	case <-c.wake:
	case <-rings:
	case <-done:
		return false
	}
	return true
}

// timer rings when a turn is due, or some time before.
type timer struct {
	timer *time.Timer
	rings <-chan time.Time
}

// set lets it ring after a time; below 0: not at all.
func (t *timer) set(after time.Duration) {
	switch {
	case after < 0:
		t.rings = nil
		return
	case t.timer == nil:
		t.timer = time.NewTimer(after)
	default:
		t.timer.Reset(after)
	}
	t.rings = t.timer.C
}

func (t *timer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

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
	if need.ahead() {
		p.step(func(e *Engine, now time.Time) { e.Join(now, c) })
	} else {
		p.join(c, false)
	}
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
	return p.engine.View(c)
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
		c.Need.used(used)
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
