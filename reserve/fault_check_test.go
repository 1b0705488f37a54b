package reserve_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// check judges a history that is over.
func (h *history) check() {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.served, func(a, b servedCall) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who))
	})
	h.judge()
	h.recovered()
}

// judge lets the strict provider judge all calls that had a turn.
func (h *history) judge() {
	tolerance, from := h.tolerance(), time.Duration(0)
	if h.policy == reserve.PolicyOpen {
		from, _ = h.window()
	}
	// The provider counts in whole permits, so a permit is cut into grains.
	const grains = 1e6
	api := provider.New(provider.TokenBucket(h.rate*grains, int(math.Ceil((float64(h.burst)+tolerance)*grains))))
	level, last, most := float64(h.burst), from, 0.0
	refused, first := 0, servedCall{}
	for _, c := range h.served {
		if c.at < from {
			continue
		}
		level = min(float64(h.burst), level+(c.at-last).Seconds()*h.rate) - float64(c.cost)
		last, most = c.at, max(most, -level)
		if ok, _ := api.JudgeAt(h.network.start.Add(c.at), c.cost*grains); !ok {
			if refused++; refused == 1 {
				first = c
			}
		}
	}
	if refused > 0 {
		h.problem("the provider refuses %d calls, %s at %v first; the fleet is up to %.4f permits too early, the tolerance is %.4f",
			refused, first.who, first.at, most, tolerance)
	}
}

const (
	// jitter is by how much calls may be late against each other at first: a process does not
	// know how long the way to Redis is before some replies.
	jitter = 2 * time.Millisecond

	// late is by how much a call may be late beyond what its permits allow, before it asks
	// for another turn instead: as much as timers are to a process that runs.
	late = 20 * time.Millisecond
)

// tolerance is how many permits the provider must bear beyond the burst. Nothing but jitter
// where the network loses and cuts. Besides:
//
//	replies come late  a call may come that late after its turn, see late
//	policy local       a process that alone lost its way uses its share besides the whole rate
//	                   of the others, until it is back; and when all have, their shares need
//	                   not agree on whose call is first: one call per process
func (h *history) tolerance() float64 {
	permits := jitter.Seconds() * h.rate
	if h.has(delayReply, hold) {
		permits += late.Seconds() * h.rate
	}
	if h.policy == reserve.PolicyLocal {
		permits += h.besides()
	}
	return permits
}

// besides is how many permits processes use under policy local while others have the whole
// rate.
func (h *history) besides() (permits float64) {
	const safety, probe = 0.9, 750 * time.Millisecond // defaults; a probe at the latest
	share := h.rate * safety / float64(len(h.way))
	for _, f := range h.troubles {
		if f.to == 0 {
			continue
		}
		away := f.to - f.from + maxTimeout + 2*probe
		if f.is(delayRequest, delayReply) {
			away += longDelay
		}
		alone := 1
		if f.process < 0 {
			alone = len(h.way)
			if !f.is(ofMessages...) {
				away = 0
			}
		}
		permits += float64(alone) * (float64(h.burst) + share*away.Seconds())
	}
	return permits
}

// recovered checks that the fleet is back at its rate.
func (h *history) recovered() {
	from, until := h.window()
	at := slices.IndexFunc(h.served, func(c servedCall) bool { return c.at >= from })
	if at < 0 {
		h.problem("no call was made after %v", from)
		return
	}
	first, last, permits := h.served[at].at, h.served[at].at, 0
	for _, c := range h.served[at+1:] {
		if c.at > until {
			break
		}
		last, permits = c.at, permits+c.cost
	}
	longest := time.Duration(h.burst+1) * h.interval() // between two calls
	used := float64(permits) / (h.rate * (last - first).Seconds())
	if first > from+longest || last < until-longest || used < 0.97 {
		h.problem("from %v to %v calls used %.3f of the limit, wanted from %v to %v", first, last, used, from, until)
	}
}
