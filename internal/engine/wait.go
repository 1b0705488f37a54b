package engine

import (
	"context"
	"time"
)

// This file lets callers join, wait, hold and leave their calls.

// Wait returns when the call has its turn and is to be made now. Its errors are the errors of the context, the
// errors of Config.Errors, and refusals of Redis. With an error, at most Waited of the turn is set.
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
		deadline = time.Time{} // such a call does not wait: it is made at once, or not at all
	}
	c.reset(need, deadline)
	p.join(c, ctx.Done() == nil)
	var t Turn
	turn, err := p.await(ctx, c, 0, false)
	if turn != nil {
		t = *turn
	}
	if c.over.Load() {
		p.calls.Put(c)
	}
	return t, err
}

// await blocks until a call uses its turn, up to early before the turn is due, or until the call has failed. If
// the context ends first, a held call keeps its place or its turn, and any other call gives up. now says to
// look at the call before it is woken. The turn may be nil with an error.
func (p *Process) await(ctx context.Context, c *Call, early time.Duration, now bool) (*Turn, error) {
	var timer timer
	defer timer.stop()
	for {
		if now {
			left, err := p.look(c, early)
			if err != nil {
				return nil, err
			}
			if left == 0 {
				c.Need.used(c.turn)
				return c.turn, nil
			}
			timer.set(left)
		}
		now = true
		if c.sleep(ctx.Done(), timer.rings) {
			continue
		}
		if c.Held {
			return nil, ctx.Err()
		}
		if waited, left := p.giveUp(c); left {
			return &Turn{Waited: waited}, ctx.Err()
		}
	}
}

// look lets a call use its turn if the turn is due, and returns 0 then. Otherwise it returns in which time the
// turn is due, or less than 0 if the call has no turn.
func (p *Process) look(c *Call, early time.Duration) (left time.Duration, err error) {
	if !c.Held && c.over.Load() { // then the call belongs to its caller, and no lock is needed
		now := time.Now()
		if c.state == Failed {
			return 0, c.err
		}
		if !now.After(c.turn.Until) {
			if c.turn == c.own { // the turn was due when it was given
				c.uses(now)
			}
			return 0, nil
		}
	}
	p.mu.Lock()
	now := time.Now()
	left, err = p.engine.Look(now, c, early)
	if p.engine.calm() { // most often there is nothing to do
		p.mu.Unlock()
		return left, err
	}
	r := p.ready(now)
	p.mu.Unlock()
	p.act(r, false)
	return left, err
}

// giveUp ends the wait of a call. It reports false if the wait was over before.
func (p *Process) giveUp(c *Call) (waited time.Duration, left bool) {
	p.step(func(e *Engine, now time.Time) { waited, left = c.waited(now), e.Leave(now, c) })
	return waited, left
}

// sleep waits for a signal to the call, or for a timer. It reports false if the context ended first.
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

// timer fires when a turn is due, or some time before.
type timer struct {
	timer *time.Timer
	rings <-chan time.Time
}

// set makes it fire after a time. With a time below 0 it does not fire.
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

// The methods below serve calls that a caller holds. Such a call stays in the queue, or booked, whether or not
// the caller waits for it. Each method is safe for concurrent use, but only one WaitFor at a time may wait for
// a call.

// Hold makes a call join the queue, and returns when it has a turn or a forecast. While Redis is unreachable,
// it may not return before the turn has come. Its errors are the errors of Wait. The context limits only the
// time until the first answer. The call refuses a turn after the deadline. A zero deadline means none.
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

// View is the state of a call at a moment.
type View struct {
	State   State
	Due     time.Time       // When its turn comes: a forecast until the turn is given.
	Slowest int             // The index of the limit that delays it most.
	Turn    *Turn           // Nil: it has no turn. Used and Waited may be read once the turn was used.
	Lost    <-chan struct{} // Closed when others have the slots that the call holds. Nil: it holds none.
}

// View returns the state of a call.
func (p *Process) View(c *Call) View {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.View(c)
}

// Until returns the moment until which the turn of the call may be used. Zero: it has no turn.
func (v *View) Until() time.Time {
	if v.Turn == nil {
		return time.Time{}
	}
	return v.Turn.Until
}

// WaitFor is Wait for a call that is held. It returns up to early before the turn is due. A booked call joins
// the queue, and a call whose turn was used gets another turn. If the context ends, the call keeps its place or
// its turn.
func (p *Process) WaitFor(ctx context.Context, c *Call, early time.Duration) (turn *Turn, err error) {
	p.step(func(e *Engine, now time.Time) { err = e.Resume(now, c) })
	if err != nil {
		return nil, err
	}
	return p.await(ctx, c, early, true)
}

// Take uses a turn that has come without a Wait. It returns the turn that the call has used, or nil.
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

// Late makes a call ask again, first in its line, because its turn reached the caller too late. See
// Engine.Late.
func (p *Process) Late(c *Call, way time.Duration, unused bool) (err error) {
	p.step(func(e *Engine, now time.Time) { err = e.Late(now, c, way, unused) })
	return err
}

// Cancel ends a call. ended is false if its turn was used, or if the call had ended before. booked says that
// the call was booked: then the caller has to end the booking, too.
func (p *Process) Cancel(c *Call) (booked, ended bool) {
	p.step(func(e *Engine, now time.Time) {
		booked = c.state == Booked
		ended = e.Cancel(now, c)
	})
	return booked, ended
}

// Restore undoes the Cancel of a booked call, because the booking could not be ended.
func (p *Process) Restore(c *Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.state = Booked
}

// PutBack ends a call in this process. It is to come back under its ID, in the order that it had. unsure says
// that it may not come back: then no call waits for it.
func (p *Process) PutBack(c *Call, unsure bool) {
	p.step(func(e *Engine, now time.Time) { e.Book(now, c, unsure) })
}

// Release frees the slots of a call, if it holds any. It does not wait for Redis. While Redis is unreachable,
// other calls get the slots only when Redis is back.
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
