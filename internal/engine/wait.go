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
		if t, ok := p.draw(need); ok {
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

// draw gives a call a turn that was taken ahead of it. It takes a copy, so that the need of a call that takes
// none ahead stays on the stack.
func (p *Process) draw(need Need) (t Turn, ok bool) {
	p.step(func(e *Engine, now time.Time) { t, ok = e.Draw(now, &need) })
	if ok {
		p.happened(need.Used(&t))
	}
	return t, ok
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
				p.happened(c.Need.Used(&t))
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
	p.step(func(e *Engine, now time.Time) {
		if c.state == Used {
			e.Oversleep(now, c)
		}
		var used bool
		if left, used = e.Use(now, c, early); used {
			left, t = 0, *c.turn
		}
		switch c.state {
		case Failed:
			err, c.err = c.err, nil
		case Gone:
			err = e.cfg.Errors.Cancelled
		case Booked: // it was asked for before somebody waited
			err = e.Resume(now, c)
		}
	})
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
