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

// tellFor bounds how long a limiter may take to hear of an answer: the caller
// waits for it.
const tellFor = 5 * time.Second

// pause is what an answer asks for.
type pause struct {
	asked time.Duration // by the provider
	lasts time.Duration // the same, cut to Config.MaxPause
	kept  bool          // the limiter lets nobody through before
}

// sleep sits the pause out where the limiter does not.
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

// heed tells the limits what the answer says.
func (t *Transport) heed(ctx context.Context, s sent, c *call, advice headers.Advice) pause {
	response := s.Response
	if t.learner != nil {
		t.learner.hear(ctx, c, advice.Windows)
	}
	each := c.pauses(advice)
	t.backOff(s, c, advice, each)
	p := pause{asked: longest(each), kept: true}
	p.lasts = min(p.asked, t.config.MaxPause)
	if p.asked > 0 {
		t.pause(ctx, c, each, &p, reason(response, advice))
	}
	if !advice.Refused && advice.Repeat > p.asked { // what it asks of this call alone
		p = pause{asked: advice.Repeat, lasts: min(advice.Repeat, t.config.MaxPause)}
	}
	return p
}

// pause pauses each limit for as long as it is to rest.
func (t *Transport) pause(ctx context.Context, c *call, each []time.Duration, p *pause, why string) {
	if p.asked > p.lasts {
		t.config.Logger.Warn("the provider asks for a longer pause than Config.MaxPause: cut to that",
			"asked", p.asked, "max_pause", t.config.MaxPause, "reason", why)
	}
	alike := map[time.Duration][]*reserve.Limiter{} // most often all are
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
			t.config.Logger.Error("the limiter could not be paused: others may call too early",
				"pause", d, "reason", why, "error", err)
			p.kept = false
		}
	}
}

func longest(each []time.Duration) time.Duration { return slices.Max(each) }

// pauses are how long each limit is to rest. A refusal that tells which of them is used up is
// about that one, and else about those that Turn.Pauses says.
func (c *call) pauses(advice headers.Advice) []time.Duration {
	each := make([]time.Duration, len(c.limits))
	for i := range each {
		for _, w := range advice.Windows {
			if c.concerns(i, w) {
				each[i] = max(each[i], w.Wait(c.Costs[i]))
			}
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

// reason says for people why there is a pause. It has no path or query: these may
// hold what is not for others.
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
