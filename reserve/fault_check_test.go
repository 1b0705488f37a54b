package reserve_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/provider"
)

// check judges a history that is over.
func (h *history) check() {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.served, func(a, b servedCall) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who))
	})
	h.judge()
	h.account()
	h.recovered()
}

// judge lets the strict provider judge all calls that had a turn.
func (h *history) judge() {
	p := h.plan
	tolerance, from := p.tolerance(), time.Duration(0)
	if policies && p.policy == "open" {
		from = p.ends + settled
	}
	// The provider counts in whole permits, so a permit is cut into grains.
	const grains = 1e6
	api := provider.New(provider.TokenBucket(p.rate*grains, int(math.Ceil((float64(p.burst)+tolerance)*grains))))
	refused := 0
	level, last, most := float64(p.burst), from, 0.0
	for _, c := range h.served {
		if c.at < from {
			continue
		}
		level = min(float64(p.burst), level+(c.at-last).Seconds()*p.rate) - float64(c.cost)
		last, most = c.at, max(most, -level)
		if ok, _ := api.JudgeAt(p.start.Add(c.at), c.cost*grains); !ok {
			if refused++; refused == 1 {
				h.fault("the provider refuses %s at %v", c.who, c.at)
			}
		}
	}
	if refused > 0 {
		h.fault("the provider refuses %d calls; the fleet is up to %.4f permits too early, the tolerance is %.4f", refused, most, tolerance)
	}
}

// jitter is by how much calls may be late against each other for reasons that are
// the network's of this test: a message takes up to a microsecond more on its way
// back than another, waits are in whole micros, rounded up, and so is the clock.
const jitter = 4 * time.Microsecond

// late is by how much a call may be late beyond what its permits allow, before it
// takes another turn instead: as much as timers do to a process that runs.
const late = 20 * time.Millisecond

// tolerance is how many permits the provider must bear beyond the burst. Nothing
// but jitter where the network loses and cuts. Besides:
//
//	replies come late        a call may come that late after its turn, see late
//	state lost, clock steps  one call per process and event: one permit, or as many
//	                         as the largest call costs
//	policy local             a process that alone lost its way uses its share
//	                         besides the whole rate of the others, until it is
//	                         back; and when all have, their shares need not agree
//	                         on whose call is first: one call per process
func (p *plan) tolerance() float64 {
	permits := jitter.Seconds() * p.rate
	if p.has(delayReply, hold) {
		permits += late.Seconds() * p.rate
	}
	permits += float64(p.events() * len(p.request) * p.burst)
	if p.policy == "local" {
		permits += p.besides()
	}
	return permits
}

// besides is how many permits processes use under policy local while others have
// the whole rate.
func (p *plan) besides() (permits float64) {
	const safety, probe = 0.9, 750 * time.Millisecond // defaults; a probe at the latest
	share := p.rate * safety / float64(len(p.request))
	for _, f := range p.faults {
		if f.to == 0 {
			continue
		}
		away := f.to - f.from + maxTimeout + 2*probe
		if f.kind.is(delayRequest, delayReply) {
			away += longDelay
		}
		alone := 1
		if f.process < 0 && f.kind.is(ofMessages...) {
			alone = len(p.request)
		}
		if f.process < 0 && !f.kind.is(ofMessages...) {
			away, alone = 0, len(p.request)
		}
		permits += float64(alone) * (float64(p.burst) + share*away.Seconds())
	}
	return permits
}

// account compares what the line gave out with what was used, where nothing but
// the network fails, nobody gives up, and so every call has its turn in the end.
func (h *history) account() {
	p := h.plan
	if !policies || p.policy != "wait" || p.cancels || p.events() > 0 || p.has(refusal) {
		return
	}
	for _, what := range h.book.twice {
		h.fault("taken twice: %s", what)
	}
	var used int64
	for _, c := range h.served {
		used += int64(c.cost)
	}
	given, most := h.book.given(), used+h.book.gone
	if p.has(delayReply, hold) {
		most = math.MaxInt64 // an Allow that has its answer too late asks anew
	}
	if given < used || given > most {
		h.fault("the line gave out %d permits, %d of them too late, and calls used %d", given, h.book.gone, used)
	}
	if left, _ := h.redis.redis.SortedSet(h.redis.keys[1]); len(left) > 0 {
		h.fault("%d numbers are left in the waiting list: %v", len(left), left)
	}
}

// recovered checks that the fleet is back at its rate.
func (h *history) recovered() {
	from, until := h.plan.window()
	at := slices.IndexFunc(h.served, func(c servedCall) bool { return c.at >= from })
	if at < 0 {
		h.fault("no call was made after %v", from)
		return
	}
	first, last, permits := h.served[at].at, h.served[at].at, 0
	for _, c := range h.served[at+1:] {
		if c.at > until {
			break
		}
		last, permits = c.at, permits+c.cost
	}
	longest := time.Duration(h.plan.burst+1) * h.plan.interval() // between two calls
	busy := float64(permits) / (h.plan.rate * (last - first).Seconds())
	if first > from+longest || last < until-longest || busy < 0.97 {
		h.fault("from %v to %v calls used %.3f of the line, wanted from %v to %v", first, last, busy, from, until)
	}
}

// patience is how long after the faults, or its own begin, a call may take: the
// fleet is back after a while, what was spent in the meantime is charged, which
// is at most a second's permits, and then everybody in the line has its turn.
func (p *plan) patience() time.Duration {
	line := time.Duration((len(p.callers)+greedy)*p.burst) * p.interval()
	return settled + maxTimeout + dialTime + time.Second + line
}
