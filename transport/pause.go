package transport

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// tellFor bounds how long Redis may take to receive what a response says: the caller waits for it.
const tellFor = 5 * time.Second

// pause is how long a response asks callers to wait.
type pause struct {
	asked time.Duration // what the provider asks for
	lasts time.Duration // the same, at most Config.MaxPause
	kept  bool          // the limits are paused for all processes, so this call need not sleep
}

// sleep waits for the end of the pause, unless the limiter itself does.
func (p pause) sleep(ctx context.Context) error {
	if p.kept || p.lasts <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(p.lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// apply changes and pauses the limits as the response says.
func (t *Transport) apply(ctx context.Context, s sent, c *call, advice verdict) pause {
	response := s.Response
	if advice.stops != "" {
		return t.stop(ctx, s, c, advice, reason(response, advice.Advice))
	}
	if t.learner != nil {
		t.learner.hear(ctx, c, advice.Windows, advice.overload, advice.body)
	}
	waits, err := t.levels.hear(ctx, c, s.at, advice.Windows)
	if err != nil {
		t.config.Logger.Error("transport: what is left could not be passed on; other processes may call too early", "error", err)
	}
	each := c.pauses(advice)
	t.backOff(s, c, advice.Advice, each)
	for i := range each {
		each[i] = max(each[i], waits[i])
	}
	p := pause{asked: longest(each), kept: true}
	p.lasts = min(p.asked, t.config.MaxPause)
	if p.asked > 0 {
		t.pause(ctx, c, each, &p, reason(response, advice.Advice))
	}
	if !advice.Refused && advice.Repeat > p.asked { // it concerns this call alone
		p = pause{asked: advice.Repeat, lasts: min(advice.Repeat, t.config.MaxPause)}
	}
	return p
}

// pause pauses each limit for its duration in each, and clears p.kept if that fails.
func (t *Transport) pause(ctx context.Context, c *call, each []time.Duration, p *pause, why string) {
	if p.asked > p.lasts {
		t.config.Logger.Warn("transport: the provider asks for a longer pause than Config.MaxPause; the limit is paused for MaxPause",
			"asked", p.asked, "max_pause", t.config.MaxPause, "reason", why)
	}
	alike := map[time.Duration][]*reserve.Limiter{} // by pause: limits that share one need one request
	for i, l := range c.limits {
		if d := min(each[i], t.config.MaxPause); d > 0 {
			alike[d] = append(alike[d], l)
		}
	}
	for d, limits := range alike {
		joint, err := reserve.All(limits...)
		if err == nil {
			err = joint.Pause(ctx, d, why)
		}
		if err != nil {
			t.config.Logger.Error("transport: the limit could not be paused; other processes may call too early",
				"pause", d, "reason", why, "error", err)
			p.kept = false
		}
	}
}

func longest(each []time.Duration) time.Duration { return slices.Max(each) }

// pauses returns how long to pause each limit. If a refusal says which limit is used up, it pauses
// that one; otherwise it pauses the limits that Need.Pauses names.
func (c *call) pauses(advice verdict) []time.Duration {
	each := make([]time.Duration, len(c.limits))
	for i := range each {
		for _, w := range advice.Windows {
			if c.concerns(i, w) {
				each[i] = max(each[i], w.Wait(c.Costs[i]))
			}
		}
	}
	for i := range each {
		if c.named(i, advice.window) {
			each[i] = max(each[i], advice.After)
			break
		}
	}
	all := slices.Max(each) == 0
	for i := range each {
		if all && c.rests[i] || each[i] > 0 {
			each[i] = max(each[i], advice.After)
		}
	}
	return each
}

// reason says why there is a pause, for people. It leaves the path and query out, because they may
// hold secrets.
func reason(response *http.Response, advice headers.Advice) string {
	host := response.Request.URL.Host
	switch {
	case !advice.Refused:
		return fmt.Sprintf("%s has nothing left", host)
	case advice.Reason != "":
		return fmt.Sprintf("%s answered %d: %s", host, response.StatusCode, advice.Reason)
	}
	return fmt.Sprintf("%s answered %d", host, response.StatusCode)
}
