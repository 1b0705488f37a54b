package world

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// plan is a history before it happens. All of it was drawn from the seed, or read from a transcript.
type plan struct {
	seed      uint64
	policy    reserve.Policy
	clock     time.Duration // time of day at the beginning
	until     time.Duration // when callers begin no more calls
	limits    []limitPlan
	processes []processPlan
	loads     []load
	events    []event
	expects   []expectation
}

// limitPlan is a limit that all processes share.
type limitPlan struct {
	name    string
	limit   reserve.Limit
	settles bool
	lease   time.Duration
}

// processPlan is a process that is there from the beginning.
type processPlan struct {
	trip    time.Duration // to the server and back
	timeout time.Duration // of a reply
}

// load is callers that are alike. Each of them makes one call after the other.
type load struct {
	callers int
	process int // of the callers; anybody: they are spread over all of them
	parts   []part
	begin   time.Duration
	apart   time.Duration // each of them begins so long after the one before
	calls   int           // of each caller; 0: until the end
	think   time.Duration // on average, between two calls of a caller
	lasts   time.Duration // of a call, at the most: for so long it holds its slots
	used    float64       // the part of its cost that a call turns out to use; 0: it does not say

	deadline time.Duration // of a call; 0: none
	retry    time.Duration // after a deadline that was missed
	quits    float64       // the part of the calls that are given up
	patience time.Duration // within which they are given up

	books   float64       // the part of its calls that are booked, as their turn is not there at once
	returns float64       // the part of the bookings that somebody comes back for
	stays   time.Duration // for how long such a call waits rather than being booked

	now    bool          // it does not wait
	lapses time.Duration // within which its caller comes for its turn, which may be over then

	flow   string
	weight float64 // 0: 1
	urgent bool
}

// part is what calls need of one limit.
type part struct {
	limit int // any: each call needs another one
	key   string
	cost  int // at the most: a call costs from 1 to that
}

// event is what happens to the world at a moment, or for a while.
type event struct {
	at, lasts time.Duration
	what      string
	process   int           // whom it happens to; anybody: to all
	limit     int           // which it happens to
	chance    float64       // of a message to be struck
	by        time.Duration // a delay, a lag, a step of a clock, a pause, a period
	to        string        // a limit, a text of a refusal
}

const anybody, anyLimit = -1, -1

// limit is that of a part; where that may be any, all of them are alike.
func (p *plan) limit(of part) *limitPlan { return &p.limits[max(0, of.limit)] }

// ends is when an event is over, and what it has delayed, too.
func (e *event) ends() time.Duration {
	end := e.at + e.lasts
	if slices.Contains(ofMessages, e.what) || e.what == pause {
		end += e.by
	}
	return end
}

// calm is when no event is left, nor what it has delayed.
func (p *plan) calm() (calm time.Duration) {
	for i := range p.events {
		calm = max(calm, p.events[i].ends())
	}
	return calm
}

// source is a source of random numbers of its own for everything that has a name.
func (p *plan) source(name string, n int) *rand.Rand {
	h := uint64(len(name))
	for _, c := range []byte(name) {
		h = h*131 + uint64(c)
	}
	return rand.New(rand.NewPCG(p.seed, h<<16+uint64(n)))
}

// strikes reports whether an event happens to a process now.
func (e *event) strikes(now time.Duration, process int, kinds ...string) bool {
	return e.at <= now && now < e.at+e.lasts && (e.process == anybody || e.process == process) && slices.Contains(kinds, e.what)
}

// has reports whether events of one of the kinds happen.
func (p *plan) has(kinds ...string) bool {
	return slices.ContainsFunc(p.events, func(e event) bool { return slices.Contains(kinds, e.what) })
}

// opens reports whether calls are not judged now: without Redis they go on beyond any limit.
func (w *world) opens() bool {
	const back = 3 * time.Second
	return w.plan.policy == reserve.PolicyOpen && w.plan.troubled() && w.now < w.plan.calm()+back
}

// holds reports whether calls hold slots.
func (p *plan) holds(l *load) bool {
	return slices.ContainsFunc(l.parts, func(of part) bool { return p.limit(of).limit.Kind() == reserve.KindSlots })
}
