package asker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
)

// Turn is a turn that a call has used.
type Turn = queue.Turn

// Wait returns when the call has its turn: it is to be made now. Errors are those of the
// context, of Config.Errors, and of Redis's refusals. Of a turn that comes with an error only
// Waited is set, if that.
func (a *Asker) Wait(ctx context.Context, need Need) (Turn, error) {
	if err := ctx.Err(); err != nil {
		return Turn{}, err
	}
	if need.leases() {
		if t, ok := a.draw(&need, time.Now()); ok {
			return t, nil
		}
	}
	w, _ := a.waiters.Get().(*waiter)
	w.need, w.kind = need, nil
	deadline, _ := ctx.Deadline()
	if need.Now {
		deadline = time.Time{} // it is made as soon as Redis says so
	}
	w.Reset(deadline)
	if a.join(w, ctx.Done() == nil) {
		a.flyOnce()
	}
	var timer alarm
	defer timer.stop()
	var t *Turn // that is not used yet
	for {
		switch e, what := w.await(ctx.Done(), timer.due); {
		case what == ended:
			if a.giveUp(w) {
				return Turn{Waited: w.Waited(time.Now())}, ctx.Err()
			}
			continue
		case what == rang:
			if !a.use(w.kind, w.Call, t) {
				continue
			}
		case e.Err != nil:
			a.waiters.Put(w)
			return Turn{}, e.Err
		case e.Turn != nil:
			t = e.Turn
		default:
			if t = a.turnOf(w); !timer.set(t, 0) || !a.use(w.kind, w.Call, t) {
				continue
			}
		}
		now := time.Now()
		if now.After(t.Until) {
			w.kind = a.overslept(w.kind, w.Call, t, now)
			continue
		}
		used := *t
		w.Uses(&used, now)
		a.used(&w.need, &used)
		a.waiters.Put(w)
		return used, nil
	}
}

// What a call waits for.
type what int

const (
	woken what = iota // by its queue
	rang              // its alarm
	ended             // its context
)

// await returns what happens first.
func (w *waiter) await(done <-chan struct{}, due <-chan time.Time) (queue.Event, what) {
	if done == nil && due == nil { // a plain receive takes a third of the time
		return <-w.Wake, woken
	}
	select {
	case e := <-w.Wake:
		return e, woken
	case <-due:
		return queue.Event{}, rang
	case <-done:
		return queue.Event{}, ended
	}
}

// turnOf is the turn that a call has, and has not used yet.
func (a *Asker) turnOf(w *waiter) *Turn {
	a.lock()
	defer a.mu.Unlock()
	if w.kind == nil { // it was not let in, and hears why
		return nil
	}
	return w.kind.queue.TurnOf(w.Call)
}

func (a *Asker) use(k *kind, c *queue.Call, t *Turn) bool {
	a.lock()
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
func (a *Asker) giveUp(w *waiter) bool {
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	if w.kind == nil || !w.kind.queue.Leave(w.Call, now) {
		return false
	}
	for _, p := range w.kind.parts {
		a.forgetMissed(p.Limit.Keys[0], now)
	}
	a.plan(w.kind, a.clock.now(now), now)
	a.kick()
	return true
}

// overslept lets a call ask anew whose turn was over when it came to use it, and returns its
// kind: the old one may be forgotten.
func (a *Asker) overslept(k *kind, c *queue.Call, t *Turn, now time.Time) *kind {
	a.lock()
	defer a.mu.Unlock()
	if a.closed || k.need.ended() {
		c.Tell(queue.Event{Err: a.cfg.Errors.Closed})
		return k
	}
	k = a.kind(&k.need)
	a.watch(Event{What: Lapsed, N: 1, Took: now.Sub(t.Until), Need: &k.need})
	k.queue.Return(c, t, now)
	k.late = max(k.late, t.Way+slop)
	a.wants(k)
	a.kick()
	return k
}

// alarm rings when a turn is due, or some time before.
type alarm struct {
	timer *time.Timer
	due   <-chan time.Time
}

// set lets it ring when a turn is due, and reports whether it is due already: then it does not
// ring. A timer that has expired when it is set is run by whoever looks at it first, and Go's
// race detector does not bear that two do so at once in simulated time.
func (l *alarm) set(t *Turn, early time.Duration) bool {
	l.due = nil
	if t == nil {
		return false
	}
	left := time.Until(t.Due) - early
	switch {
	case left <= 0:
		return true
	case l.timer == nil:
		l.timer = time.NewTimer(left)
	default:
		l.timer.Reset(left)
	}
	l.due = l.timer.C
	return false
}

func (l *alarm) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
