package asker

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Pause lets no call of some limits be due for a time.
func (a *Asker) Pause(ctx context.Context, limits []*wire.Limit, d time.Duration, reason string) error {
	return a.move(limits, func(c *wire.Call) (wire.Reply, error) { return wire.Pause(ctx, c, d, reason) })
}

// Resume ends a pause.
func (a *Asker) Resume(ctx context.Context, limits []*wire.Limit) error {
	return a.move(limits, func(c *wire.Call) (wire.Reply, error) { return wire.Resume(ctx, c) })
}

// Set lets another limit be in force: for a time or, with 0, until it is set again.
func (a *Asker) Set(ctx context.Context, limit *wire.Limit, terms wire.Terms, d time.Duration) error {
	return a.move([]*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) { return wire.Set(ctx, c, terms.A, terms.B, d) })
}

// Reset ends what Set began.
func (a *Asker) Reset(ctx context.Context, limit *wire.Limit) error {
	return a.move([]*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) { return wire.Reset(ctx, c) })
}

// Settle tells what the call of a turn really used of each of its limits.
func (a *Asker) Settle(ctx context.Context, need Need, t Turn, used []int64) error {
	parts := append([]Part{need.Part}, need.More...)
	items := make([]wire.Used, len(parts))
	for i, p := range parts {
		items[i] = wire.Used{Limit: i, ID: wire.ID(t.Process, t.Number), Cost: p.Cost, Used: used[i]}
	}
	return a.once(limitsOf(parts), func(c *wire.Call) (wire.Reply, error) {
		reply, _, err := wire.Settle(ctx, c, items)
		return reply, err
	})
}

// Inspect returns how some limits stand, and changes nothing.
func (a *Asker) Inspect(ctx context.Context, limits []*wire.Limit) (states []wire.State, err error) {
	err = a.once(limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, states, err = wire.Inspect(ctx, c)
		return reply, err
	})
	return states, err
}

// move makes a call that moves limits: turns of this process that were not used are void.
func (a *Asker) move(limits []*wire.Limit, call func(*wire.Call) (wire.Reply, error)) error {
	var micros int64
	err := a.once(limits, func(c *wire.Call) (wire.Reply, error) {
		reply, err := call(c)
		micros = reply.Micros
		return reply, err
	})
	if err == nil {
		for _, l := range limits {
			a.void(l.Keys[0], micros)
		}
	}
	return err
}

// once makes a call that nobody shares.
func (a *Asker) once(limits []*wire.Limit, make func(*wire.Call) (wire.Reply, error)) error {
	now := time.Now()
	a.mu.Lock()
	caller := a.caller(a.clock.now(now))
	a.mu.Unlock()
	call := &wire.Call{Caller: caller, Client: a.cfg.Client, Limits: limits, Now: now}
	reply, err := make(call)
	if err != nil {
		return err
	}
	a.arrive(call, &reply)
	return reply.AnyProblem()
}
