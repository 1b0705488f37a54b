package asker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Pause lets no call of some limits be due for a time.
func (a *Asker) Pause(ctx context.Context, limits []*wire.Limit, d time.Duration, reason string) error {
	var left []time.Duration
	micros, err := a.move(ctx, limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, left, err = wire.Pause(ctx, c, d, reason)
		return reply, err
	})
	if err != nil {
		return err
	}
	for i, l := range limits {
		a.void(l.Keys[0], micros, micros+left[i].Microseconds())
	}
	return nil
}

// Resume ends a pause.
func (a *Asker) Resume(ctx context.Context, limits []*wire.Limit) error {
	_, err := a.move(ctx, limits, func(c *wire.Call) (wire.Reply, error) { return wire.Resume(ctx, c) })
	return err
}

// Set lets another limit be in force: for a time or, with 0, until it is set again.
func (a *Asker) Set(ctx context.Context, limit *wire.Limit, terms wire.Terms, d time.Duration) error {
	_, err := a.move(ctx, []*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) { return wire.Set(ctx, c, terms.A, terms.B, d) })
	return err
}

// Reset ends what Set began.
func (a *Asker) Reset(ctx context.Context, limit *wire.Limit) error {
	_, err := a.move(ctx, []*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) { return wire.Reset(ctx, c) })
	return err
}

// Settle tells what the call of a turn really used of each of its limits.
func (a *Asker) Settle(ctx context.Context, need Need, t Turn, used []int64) error {
	parts := need.parts()
	items := make([]wire.Used, len(parts))
	for i, p := range parts {
		items[i] = wire.Used{Limit: i, ID: wire.CallID(t.Process, t.Number), Cost: p.Cost, Used: used[i]}
	}
	return a.once(ctx, limitsOf(parts), func(c *wire.Call) (wire.Reply, error) {
		reply, _, err := wire.Settle(ctx, c, items)
		return reply, err
	})
}

// Inspect returns how some limits stand, and changes nothing.
func (a *Asker) Inspect(ctx context.Context, limits []*wire.Limit) (states []wire.State, err error) {
	if err := a.otherThan(limits...); err != nil {
		return nil, err
	}
	err = a.once(ctx, limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, states, err = wire.Inspect(ctx, c)
		return reply, err
	})
	return states, err
}

// move makes a call that moves limits, and returns when Redis did so. News of that come back to this
// process as to all others; where it hears none, its calls that wait ask at once all the same.
func (a *Asker) move(ctx context.Context, limits []*wire.Limit, call func(*wire.Call) (wire.Reply, error)) (micros int64, err error) {
	if err := a.otherThan(limits...); err != nil {
		return 0, err
	}
	a.isMoving(limits, 1)
	defer a.isMoving(limits, -1)
	err = a.once(ctx, limits, func(c *wire.Call) (wire.Reply, error) {
		reply, err := call(c)
		micros = reply.Micros
		return reply, err
	})
	if err != nil {
		return 0, err
	}
	a.lock()
	defer a.mu.Unlock()
	for _, l := range limits {
		m := a.moveOf(l.Keys[0])
		m.own = micros
		a.forgetMissed(l.Keys[0], m.heard)
	}
	a.refreshAll(func(k *kind) bool {
		return slices.ContainsFunc(limits, func(l *wire.Limit) bool { return k.at(l.Keys[0]) })
	})
	return micros, nil
}

// isMoving notes that a call which moves limits begins, or has ended.
func (a *Asker) isMoving(limits []*wire.Limit, change int) {
	a.lock()
	defer a.mu.Unlock()
	for _, l := range limits {
		if a.moving[l.Keys[0]] += change; a.moving[l.Keys[0]] == 0 {
			delete(a.moving, l.Keys[0])
		}
	}
}

// once makes a call that nobody shares, until Redis answers, or counts as away. It may be
// repeated.
func (a *Asker) once(ctx context.Context, limits []*wire.Limit, make func(*wire.Call) (wire.Reply, error)) error {
	for failures := 0; ; failures++ {
		err := a.onceOnly(ctx, limits, make)
		if errors.Is(err, wire.ErrClock) && failures == 0 {
			continue
		}
		if err == nil || !fault.Away(err) || ctx.Err() != nil || a.cfg.Breaker.Hopeless(err) || a.cfg.Breaker.Open() {
			return err
		}
		if !a.restWith(ctx, backoff(failures)) {
			if ctx.Err() != nil {
				return err
			}
			return a.cfg.Errors.Closed
		}
	}
}

// onceOnly makes such a call one time, if the breaker lets it through.
func (a *Asker) onceOnly(ctx context.Context, limits []*wire.Limit, make func(*wire.Call) (wire.Reply, error)) error {
	if !a.cfg.Breaker.Pass() {
		return a.cfg.Breaker.Shut()
	}
	now := time.Now()
	a.lock()
	caller := a.caller(a.clock.now(now))
	a.mu.Unlock()
	call := &wire.Call{Caller: caller, Client: a.cfg.Client, Limits: limits, Now: now, Clock: a.clock.redis(now)}
	reply, err := make(call)
	if err == nil {
		a.arrive(call, &reply)
		err = reply.AnyProblem()
	}
	a.cfg.Breaker.Record(ctx, err)
	return err
}
