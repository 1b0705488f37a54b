package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// plan is a history before it is played. It was drawn from the seed, or read from a transcript.
type plan struct {
	seed      uint64
	policy    reserve.Policy
	clock     time.Duration // the time of day at the beginning
	until     time.Duration // when callers stop making calls
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

// processPlan is a process that exists from the beginning.
type processPlan struct {
	trip    time.Duration // the time of a round trip
	timeout time.Duration // how long the process waits for a reply
	version string        // of fleetpace; empty: the current one
}

// load is a group of equal callers. Each of them makes one call after the other.
type load struct {
	callers int
	process int // the process of the callers; anybody: they are spread over all processes
	parts   []part
	keys    int // each call needs the limits with a random key, one of so many; 0: with those of its parts
	begin   time.Duration
	apart   time.Duration // the time between the first calls of two callers
	calls   int           // of each caller; 0: until the end
	think   time.Duration // on average, between two calls of a caller
	lasts   time.Duration // the longest time of a call, for which it holds its slots
	used    float64       // the part of its cost that a call uses in the end; 0: it does not settle

	deadline time.Duration // of a call; 0: none
	retry    time.Duration // after a missed deadline
	quits    float64       // the part of the calls that are given up
	patience time.Duration // within which they are given up

	books   float64       // the part of its calls that are booked if their turn is not there at once
	returns float64       // the part of the bookings whose caller comes back
	stays   time.Duration // how far away a turn may be for such a call to wait instead

	now    bool          // it does not wait
	lapses time.Duration // the longest time until the caller uses its turn, which may have expired by then

	flow   string
	weight float64 // 0: 1
	urgent bool
}

// part is what calls need at one limit.
type part struct {
	limit int // any: each call needs another limit
	key   string
	cost  int // the highest cost: calls cost from 1 to this
}

// event is something that happens to the world at a moment, or for a while.
type event struct {
	at, lasts time.Duration
	what      string
	process   int           // the process that is affected; anybody: all processes
	limit     int           // the limit that is affected
	chance    float64       // the probability that a message is affected
	by        time.Duration // a delay, a lag, a step of a clock, a pause, a hard stop, a period
	to        string        // a limit, or the text of a refusal
	key       string        // the key whose plan changes …
	keys      int           // … or each time a random one of so many
}

const anybody, anyLimit = -1, -1

// limit returns the limit of a part. If a call needs any limit, all limits are equal.
func (p *plan) limit(of part) *limitPlan { return &p.limits[max(0, of.limit)] }

// ends returns when an event is over, with all that it has delayed.
func (e *event) ends() time.Duration {
	end := e.at + e.lasts
	if slices.Contains(ofMessages, e.what) || e.what == pause || e.what == hardStop {
		end += e.by
	}
	return end
}

// calm returns when all events are over, with all that they have delayed.
func (p *plan) calm() (calm time.Duration) {
	for i := range p.events {
		calm = max(calm, p.events[i].ends())
	}
	return calm
}

// source returns a source of random numbers for a name and a number.
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

// concerns reports whether an event may affect a meter: a plan is that of one key.
func (e *event) concerns(m part) bool { return e.what != replan || e.keys == 0 && e.key == m.key }

// customer returns the nth key of many.
func customer(n int) string { return fmt.Sprint("customer", n) }

// isPlanned reports whether a limit has plans.
func (p *plan) isPlanned(limit int) bool {
	return slices.ContainsFunc(p.events, func(e event) bool { return e.what == replan && e.limit == limit })
}

// has reports whether the plan has an event of these kinds.
func (p *plan) has(kinds ...string) bool {
	return slices.ContainsFunc(p.events, func(e event) bool { return slices.Contains(kinds, e.what) })
}

// opens reports whether calls are not judged now, because calls without Redis exceed any limit.
func (w *world) opens() bool {
	const back = 3 * time.Second
	return w.plan.policy == reserve.PolicyOpen && w.plan.troubled() && w.now < w.plan.calm()+back
}

// holds reports whether calls of a load hold slots.
func (p *plan) holds(l *load) bool {
	return slices.ContainsFunc(l.parts, func(of part) bool { return p.limit(of).limit.Kind() == reserve.KindSlots })
}

// cut reduces a history to what it needs to fail. It drops events, callers and processes one after the
// other, as long as the rest still fails. It plays at most `plays` histories.
func cut(p *plan, plays int, fails func(*plan) bool) *plan {
	try := func(change func(*plan)) bool {
		if plays <= 0 {
			return false
		}
		plays--
		smaller := p.clone()
		change(smaller)
		if smaller.check() != nil || !fails(smaller) {
			return false
		}
		p = smaller
		return true
	}
	for again := true; again && plays > 0; {
		again = false
		for i := len(p.events) - 1; i >= 0; i-- {
			again = try(func(p *plan) { p.events = slices.Delete(p.events, i, i+1) }) || again
		}
		for i := len(p.loads) - 1; i >= 0; i-- {
			again = try(func(p *plan) { p.loads = slices.Delete(p.loads, i, i+1) }) || again
		}
		for i := len(p.processes) - 1; i > 0; i-- {
			again = try(func(p *plan) { p.dropProcess(i) }) || again
		}
		for i := range p.loads {
			again = try(func(p *plan) { p.loads[i].quits, p.loads[i].patience = 0, 0 }) && p.loads[i].quits > 0 || again
			for p.loads[i].callers > 1 && try(func(p *plan) { p.loads[i].callers /= 2 }) {
				again = true
			}
		}
		for p.until > time.Second && try(func(p *plan) { p.until = max(p.calm(), p.until*2/3) }) && p.until > p.calm() {
			again = true
		}
	}
	return p
}

func (p *plan) clone() *plan {
	c := *p
	c.limits, c.processes = slices.Clone(p.limits), slices.Clone(p.processes)
	c.loads, c.events = slices.Clone(p.loads), slices.Clone(p.events)
	return &c
}

// dropProcess drops a process with its callers and events.
func (p *plan) dropProcess(n int) {
	p.processes = slices.Delete(p.processes, n, n+1)
	p.loads = slices.DeleteFunc(p.loads, func(l load) bool { return l.process == n })
	p.events = slices.DeleteFunc(p.events, func(e event) bool { return e.process == n })
	for i := range p.loads {
		if p.loads[i].process > n {
			p.loads[i].process--
		}
	}
	for i := range p.events {
		if p.events[i].process > n {
			p.events[i].process--
		}
	}
}
