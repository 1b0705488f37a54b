package transport

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// Need is what a request needs before it may be sent.
type Need struct {
	// Limiter is the limit to wait for, or the Joint of several limits that the request needs at
	// once. nil: the request is sent without a turn, and its response changes no limit.
	Limiter reserve.Turns

	// Cost is how many permits the request takes of each limit, from 1 to the smallest burst. 0
	// means 1.
	Cost int

	// Costs are the permits of each limit, in their order, if they differ. Then leave Cost at 0.
	Costs []int

	// Window is the provider's name for the limit in its responses: "requests", "input-tokens",
	// "core", the name of a policy; see [headers.Window]. Other windows of a response do not
	// concern the limit. Empty: all windows that count requests concern it.
	//
	// Set it if a provider has several limits for different requests, as GitHub has for its search.
	Window string

	// Windows are the provider's names for several limits, in their order. Only the limit that is
	// used up is paused. A limit that responses state in several windows has their names with commas, such as
	// "tokens,project-tokens". Without Windows, all limits are paused together, and none of them follows
	// what responses state; see [Config.Learn].
	Windows []string

	// Pauses are the limits to pause when a refusal does not say which limit is used up, such as a
	// 503 with Retry-After. For example, a crawl pauses the limit of the site, and not its limit
	// for all sites. They must be limits of Limiter. nil: all of them.
	Pauses reserve.Turns

	// Account are the limits to stop when a hard stop concerns the whole account: see [Config.API]. A stop for the
	// model alone concerns the others. They must be limits of Limiter. nil: the limits without keys. Limits that
	// are in neither Account nor Pauses are not stopped. If no limit is left to stop, all limits in Pauses are.
	Account reserve.Turns

	// Adapt gets the result of the request, so that the limit can follow; see [Config.Adapt]. nil:
	// the limit does not adapt.
	Adapt Adapter
}

// call is a turn with its defaults filled in, and what follows from it.
type call struct {
	Need
	joint    *reserve.Joint
	limits   []*reserve.Limiter
	told     bool   // it is known which window belongs to which limit
	rests    []bool // the limits to pause when a refusal does not say which limit is used up
	account  []bool // the limits of the whole account
	settles  bool   // some limit has Config.Settles
	slots    bool   // some limit has slots; the call holds them until it has its response
	again    []int  // the indices of the limits without slots; a repeated request takes their permits again
	adaption int    // the index of the limit that adapts

	longestStop time.Duration // 0: any
}

func (t Need) call() (*call, error) {
	c := &call{Need: t, limits: t.Limiter.Limits()}
	n := len(c.limits)
	var err error
	if c.joint, err = reserve.All(c.limits...); err != nil {
		return nil, fmt.Errorf("transport: %w Need.Limiter: %w", ErrInvalid, err)
	}
	switch {
	case c.Cost < 0:
		return nil, invalid("Need.Cost", "must be 0 or above, got %d", c.Cost)
	case c.Costs == nil:
		c.Costs = slices.Repeat([]int{max(1, c.Cost)}, n)
	case c.Cost != 0:
		return nil, invalid("Need.Costs", "must not be set together with Need.Cost")
	case len(c.Costs) != n:
		return nil, invalid("Need.Costs", "must be one for each of the %d limits, got %d", n, len(c.Costs))
	}
	c.told = n == 1 || c.Windows != nil
	switch {
	case c.Windows == nil:
		c.Windows = slices.Repeat([]string{c.Window}, n)
	case c.Window != "":
		return nil, invalid("Need.Windows", "must not be set together with Need.Window")
	case len(c.Windows) != n:
		return nil, invalid("Need.Windows", "must be one for each of the %d limits, got %d", n, len(c.Windows))
	}
	if c.rests, err = t.among("Need.Pauses", t.Pauses); err != nil {
		return nil, err
	}
	if c.account, err = t.among("Need.Account", t.Account); err != nil {
		return nil, err
	}
	for i, l := range c.limits {
		c.account[i] = c.account[i] && (t.Account != nil || l.String() == l.Name())
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

// among reports for each limit of the turn whether it is one of some limits. nil: all of them.
func (t Need) among(field string, some reserve.Turns) ([]bool, error) {
	among, named := make([]bool, len(t.Limiter.Limits())), 0
	for i, l := range t.Limiter.Limits() {
		among[i] = some == nil || slices.ContainsFunc(some.Limits(), func(of *reserve.Limiter) bool { return of.String() == l.String() })
		if among[i] {
			named++
		}
	}
	if some != nil && named != len(some.Limits()) {
		return nil, invalid(field, "must be limits of Need.Limiter %v, got %v", t.Limiter, some)
	}
	return among, nil
}

// wait waits for another turn of a request that net/http repeats. It keeps the slots that it holds.
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

// concerns reports whether w is the window of the limit at this index.
func (c *call) concerns(i int, w headers.Window) bool {
	if c.Windows[i] == "" {
		return w.Unit == headers.Requests
	}
	return c.named(i, w.Name)
}

// named reports whether the provider has this name for the limit at this index.
func (c *call) named(i int, name string) bool {
	for one := range strings.SplitSeq(c.Windows[i], ",") {
		if name != "" && strings.EqualFold(strings.TrimSpace(one), name) {
			return true
		}
	}
	return false
}
