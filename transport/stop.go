package transport

import (
	"context"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// stop stops the limits of a call for the whole fleet, because what the provider sells is used up.
func (t *Transport) stop(ctx context.Context, s sent, c *call, advice verdict, why string) pause {
	if c.longestStop > 0 && (advice.After == 0 || advice.After > c.longestStop) {
		advice.After = c.longestStop
	}
	until := time.Time{}
	if advice.After > 0 {
		until = time.Now().Add(advice.After)
	}
	stops := slices.DeleteFunc(c.stops(advice.stops), func(l *reserve.Limiter) bool { return l.ServedSince(ctx, s.at) })
	if len(stops) == 0 {
		return pause{} // the refusal is late
	}
	joint, err := reserve.All(stops...)
	if err == nil {
		err = joint.Stop(ctx, until, why)
	}
	if err != nil {
		t.config.Logger.Error("transport: the limit could not be stopped; other processes may call in vain", "reason", why, "error", err)
	}
	asked := advice.After
	if asked == 0 {
		asked = t.config.MaxPause
	}
	return pause{asked: asked, lasts: min(asked, t.config.MaxPause), kept: err == nil}
}

// stops returns the limits to stop: those of the account, or those of the model, if there are any.
func (c *call) stops(scope bodies.Scope) []*reserve.Limiter {
	var all, some []*reserve.Limiter
	for i, l := range c.limits {
		if !c.rests[i] && (c.Account == nil || !c.account[i]) {
			continue
		}
		all = append(all, l)
		if c.account[i] == (scope != bodies.Model) {
			some = append(some, l)
		}
	}
	if len(some) > 0 {
		return some
	}
	return all
}

// probed ends the stop of the limits, if the call has found that the provider serves calls again.
func (t *Transport) probed(ctx context.Context, s sent, c *call) {
	if err := s.turn.Served(ctx); err != nil {
		t.config.Logger.Error("transport: the limit is stopped, though the provider serves calls again: resume it", "limit", c.joint.String(), "error", err)
	}
}
