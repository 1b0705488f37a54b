package asker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
)

// Turn is a turn that a call has used.
type Turn = queue.Turn

// Wait returns when the call has its turn: it is to be made now. Errors are those of the
// context, of Config.Errors, and of Redis's refusals.
func (a *Asker) Wait(ctx context.Context, need Need) (Turn, error) {
	if err := ctx.Err(); err != nil {
		return Turn{}, err
	}
	deadline, _ := ctx.Deadline()
	c, _ := a.calls.Get().(*queue.Call)
	c.Reset(deadline)
	k, mine, err := a.join(&need, c, ctx.Done() == nil)
	if err != nil {
		return Turn{}, err
	}
	if mine {
		a.flyOnce()
	}
	var timer alarm
	defer timer.stop()
	var t *Turn // that is not used yet
	for {
		select {
		case e := <-c.Wake:
			switch {
			case e.Err != nil:
				a.calls.Put(c)
				return Turn{}, e.Err
			case e.Turn == nil:
				t = a.turnOf(k, c)
				timer.set(t)
				continue
			}
			t = e.Turn
		case <-timer.due:
			if !a.use(k, c, t) {
				continue
			}
		case <-ctx.Done():
			if a.giveUp(k, c) {
				return Turn{}, ctx.Err()
			}
			continue
		}
		now := time.Now()
		if now.After(t.Until) {
			k = a.overslept(k, c, t, now)
			continue
		}
		a.calls.Put(c)
		a.watch(Event{What: Used, N: 1, Took: now.Sub(t.Due), Need: &k.need})
		return *t, nil
	}
}

// join lets a call wait. It reports whether the caller is to make a flight itself.
func (a *Asker) join(need *Need, c *queue.Call, idle bool) (k *kind, fly bool, err error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false, a.cfg.Errors.Closed
	}
	a.used = now
	a.beat()
	a.listen()
	k = a.kind(need)
	k.queue.Join(c, now)
	if a.away != nil {
		select {
		case a.joined <- struct{}{}:
		default:
		}
		return k, false, nil
	}
	a.wants(k)
	if idle && a.flights == 0 && len(a.ready) == 1 {
		a.flights++
		a.busy.Add(1)
		return k, true, nil
	}
	a.kick()
	return k, false, nil
}

// turnOf is the turn that a call has, and has not used yet.
func (a *Asker) turnOf(k *kind, c *queue.Call) *Turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return k.queue.TurnOf(c)
}

func (a *Asker) use(k *kind, c *queue.Call, t *Turn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !k.queue.Use(c, t) {
		return false
	}
	if k.queue.Idle() {
		now := time.Now()
		a.plan(k, a.clock.now(now), now)
	}
	return true
}

// giveUp ends the wait of a call, unless that is over.
func (a *Asker) giveUp(k *kind, c *queue.Call) bool {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !k.queue.Leave(c, now) {
		return false
	}
	a.plan(k, a.clock.now(now), now)
	a.kick()
	return true
}

// overslept lets a call ask anew whose turn was over when it came to use it, and returns its
// kind: the old one may be forgotten.
func (a *Asker) overslept(k *kind, c *queue.Call, t *Turn, now time.Time) *kind {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		c.Wake <- queue.Event{Err: a.cfg.Errors.Closed}
		return k
	}
	k = a.kind(&k.need)
	a.watch(Event{What: Lapsed, N: 1, Took: now.Sub(t.Until), Need: &k.need})
	k.queue.Return(c, t, now)
	a.wants(k)
	a.kick()
	return k
}

// alarm rings when a turn is due.
type alarm struct {
	timer *time.Timer
	due   <-chan time.Time
}

func (l *alarm) set(t *Turn) {
	switch {
	case t == nil:
		l.due = nil
	case l.timer == nil:
		l.timer = time.NewTimer(time.Until(t.Due))
		l.due = l.timer.C
	default:
		l.timer.Reset(time.Until(t.Due))
		l.due = l.timer.C
	}
}

func (l *alarm) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
