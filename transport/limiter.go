package transport

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// Turn is what a request needs before it may be sent.
type Turn struct {
	// Limiter is the limit to wait for, or the Joint of several that the request needs at
	// once. nil: the request is sent without a turn, and what its answer says is not heeded.
	Limiter reserve.Turns

	// Cost is in permits, the same of each limit, from 1 to the least burst. 0 means 1.
	Cost int

	// Costs are the permits of each limit, in their order, where they differ. Leave Cost at
	// 0 then.
	Costs []int

	// Window is the provider's name for the limit, as its answers tell it: "requests",
	// "input-tokens", "core", the name of a policy; see [headers.Window]. What answers
	// say of other windows does not concern the limit. Empty: all windows that count
	// requests concern it.
	//
	// Name it where a provider has several limits for different requests, as
	// GitHub has for its search.
	Window string

	// Windows are the provider's names for several limits, in their order. The limit that
	// is used up is paused, and the others are not. Without Windows all limits are paused
	// together, and none of them follows what is told; see [Config.Learn].
	Windows []string

	// Pauses are the limits, of several, that a refusal pauses if it does not tell which one is
	// used up, such as a 503 with Retry-After: the limit of one site, say, and not that of the
	// whole crawl. nil: all of them.
	Pauses reserve.Turns

	// Adapt hears how the request was answered, so that the limit can follow; see
	// [Config.Adapt]. nil: nobody does.
	Adapt Adapter
}

// call is a turn in full.
type call struct {
	Turn
	joint    *reserve.Joint
	limits   []*reserve.Limiter
	told     bool   // which window each limit is
	rests    []bool // which limits a refusal pauses that tells of none
	settles  bool
	slots    bool  // some limits have slots, which it holds until it is answered …
	again    []int // … and the others are these
	adaption int   // which limit adapts
}

func (t Turn) call() (*call, error) {
	c := &call{Turn: t, limits: t.Limiter.Limits()}
	n := len(c.limits)
	var err error
	if c.joint, err = reserve.All(c.limits...); err != nil {
		return nil, fmt.Errorf("transport: %w Turn.Limiter: %w", ErrInvalid, err)
	}
	switch {
	case c.Costs == nil:
		c.Costs = slices.Repeat([]int{max(1, c.Cost)}, n)
	case c.Cost != 0:
		return nil, invalid("Turn.Costs", "must not be set together with Turn.Cost")
	case len(c.Costs) != n:
		return nil, invalid("Turn.Costs", "must be one for each of the %d limits, got %d", n, len(c.Costs))
	}
	c.told = n == 1 || c.Windows != nil
	switch {
	case c.Windows == nil:
		c.Windows = slices.Repeat([]string{c.Window}, n)
	case c.Window != "":
		return nil, invalid("Turn.Windows", "must not be set together with Turn.Window")
	case len(c.Windows) != n:
		return nil, invalid("Turn.Windows", "must be one for each of the %d limits, got %d", n, len(c.Windows))
	}
	if c.rests, err = t.resting(); err != nil {
		return nil, err
	}
	for i, l := range c.limits {
		if l.Limit().Kind() == reserve.KindSlots {
			c.slots = true
		} else {
			c.again = append(c.again, i)
		}
	}
	c.settles = slices.ContainsFunc(c.limits, (*reserve.Limiter).Settles)
	if of, ok := c.Adapt.(fmt.Stringer); ok {
		c.adaption = max(0, slices.IndexFunc(c.limits, func(l *reserve.Limiter) bool { return l.String() == of.String() }))
	}
	return c, nil
}

// resting says which limits are Pauses.
func (t Turn) resting() ([]bool, error) {
	rests, named := make([]bool, len(t.Limiter.Limits())), 0
	for i, l := range t.Limiter.Limits() {
		rests[i] = t.Pauses == nil || slices.ContainsFunc(t.Pauses.Limits(), func(p *reserve.Limiter) bool { return p.String() == l.String() })
		if rests[i] {
			named++
		}
	}
	if t.Pauses != nil && named != len(t.Pauses.Limits()) {
		return nil, invalid("Turn.Pauses", "must be limits of Turn.Limiter %v, got %v", t.Limiter, t.Pauses)
	}
	return rests, nil
}

// wait waits for the turn of a request that is sent again while it holds its slots.
func (c *call) wait(ctx context.Context) error {
	if !c.slots {
		return c.joint.Wait(ctx, c.Costs...)
	}
	if len(c.again) == 0 {
		return nil
	}
	var limits []*reserve.Limiter
	var costs []int
	for _, i := range c.again {
		limits, costs = append(limits, c.limits[i]), append(costs, c.Costs[i])
	}
	joint, err := reserve.All(limits...)
	if err != nil {
		return err
	}
	return joint.Wait(ctx, costs...)
}

// concerns reports whether w is what the limit at an index stands for.
func (c *call) concerns(i int, w headers.Window) bool {
	if c.Windows[i] == "" {
		return w.Unit == headers.Requests
	}
	return w.Name == strings.ToLower(c.Windows[i])
}
