package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	// SettleEvery is the least time between two trips that settle costs, if nobody waits for their answers.
	SettleEvery = 250 * time.Millisecond
	// mostSettled is how many calls one script call settles: it has to take less than a millisecond.
	mostSettled = 32
)

// settlements is what calls have reported of their costs. Reports of all limits of the process share a trip:
//
//   - At most one trip is under way, so each report begins at the costs that the answer before has left.
//   - A trip takes all reports that wait. A later number of a call for a limit replaces an earlier one.
//   - Each report gets one outcome: that of the trip that had its numbers, or later ones in their place.
//   - A report that got no answer is sent again, as it was, before later numbers of its call.
//   - A trip begins at once if a caller waits for it, or if the last one began SettleEvery ago. Otherwise the timer is
//     set.
type settlements struct {
	mu      sync.Mutex
	idle    sync.Cond // a trip has ended
	waiting []*Charge // that have reports
	sending bool      // a trip is under way
	over    int       // how many trips have ended
	next    time.Time // when the next trip may begin
	timer   *time.Timer
	closed  bool // reports do not wait any more
}

// Charge is what limits count for one call that has its turn. The lock of settlements guards it.
type Charge struct {
	need  *Need
	id    string  // its wire.CallID; empty: Redis does not know the call
	costs []int64 // per limit

	used []report // not sent
	sent []report // without an answer; only trips use them
	told []func(was []int64, err error)
}

// report is how many permits a call has used of a limit; below 0: there is no report.
type report struct {
	used  int64
	again bool // used is a better estimate: permits may come back again
	lost  bool // Redis may have it
}

// NewCharge returns the charge of a call at its costs. The id is its wire.CallID. If it is empty, nothing is sent.
func NewCharge(need *Need, id string) *Charge {
	c := &Charge{need: need, id: id}
	need.each(func(p Part) { c.costs = append(c.costs, p.Cost) })
	c.sent = slices.Repeat([]report{{used: -1}}, len(c.costs))
	return c
}

// Costs returns what the limits count for a call now.
func (p *Process) Costs(c *Charge) []int64 {
	p.settlements.mu.Lock()
	defer p.settlements.mu.Unlock()
	return slices.Clone(c.costs)
}

// Report tells Redis how many permits of each limit a call has used; below 0: it is not known. If used are better
// estimates, permits may come back again. If soon is false, the trip begins at once. The outcome goes to told, with
// what the limits counted before.
func (p *Process) Report(c *Charge, used []int64, again, soon bool, told func(was []int64, err error)) {
	s := &p.settlements
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.told == nil {
		s.waiting = append(s.waiting, c)
		c.used = slices.Repeat([]report{{used: -1}}, len(used))
	}
	for i, n := range used {
		if n >= 0 {
			c.used[i] = report{used: n, again: again}
		}
	}
	c.told = append(c.told, told)
	if !soon || s.closed {
		s.next = time.Time{}
	}
	p.settleNext()
}

// settleNext begins the next trip, or sets the timer for it. The settlements must be locked.
func (p *Process) settleNext() {
	s := &p.settlements
	if s.sending || len(s.waiting) == 0 {
		return
	}
	now := time.Now()
	if wait := s.next.Sub(now); wait > 0 {
		if s.timer == nil {
			s.timer = time.AfterFunc(wait, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				p.settleNext()
			})
		} else {
			s.timer.Reset(wait)
		}
		return
	}
	charges := s.waiting
	s.waiting, s.sending, s.next = nil, true, now.Add(SettleEvery)
	go p.settleAll(charges)
}

// settleAll makes a trip, and then the next one if it is due.
func (p *Process) settleAll(charges []*Charge) {
	var trip sync.WaitGroup
	for some := range slices.Chunk(charges, mostSettled) {
		trip.Go(func() { p.settle(some) })
	}
	trip.Wait()
	s := &p.settlements
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending = false
	s.over++
	p.settleNext()
	s.idle.Broadcast()
}

// settle makes one script call, and another one before it if reports of these calls got no answer.
func (p *Process) settle(charges []*Charge) {
	was := make([][]int64, len(charges))
	for k, c := range charges {
		was[k] = p.Costs(c)
	}
	before := p.trip(charges)
	told := make([][]func([]int64, error), len(charges))
	p.settlements.mu.Lock()
	for k, c := range charges {
		for i, r := range c.used {
			if c.id != "" && c.sent[i].used < 0 && r.used != c.costs[i] {
				c.sent[i] = r
			}
		}
		told[k], c.told = c.told, nil
	}
	p.settlements.mu.Unlock()
	failed := p.trip(charges)
	for k := range charges {
		for _, tell := range told[k] {
			tell(was[k], cmp.Or(before[k], failed[k]))
		}
	}
}

// trip sends what charges have in sent, and returns the problem of each.
func (p *Process) trip(charges []*Charge) []error {
	var b Batch
	b.index = map[string]int{}
	type part struct {
		*report
		charge int
		cost   *int64
	}
	var parts []part // of the items
	failed := make([]error, len(charges))
	for k, c := range charges {
		for i, of := range c.need.Parts() {
			if r := &c.sent[i]; r.used >= 0 {
				b.Used = append(b.Used, wire.Used{Limit: b.at(of.Limit), ID: c.id, Cost: c.costs[i], Used: r.used, Again: r.again, Flow: c.need.Flow})
				parts = append(parts, part{r, k, &c.costs[i]})
			}
		}
	}
	if len(parts) == 0 {
		return failed
	}
	changed := slices.Repeat([]int64{wire.NotKnown}, len(parts))
	var reply *wire.Reply // nil: Redis has not answered
	err := p.once(context.Background(), b.limits, func(c *wire.Call) (wire.Reply, error) {
		is, permits, err := wire.Settle(context.Background(), c, b.Used)
		if reply = nil; err == nil {
			reply = &is
		}
		for k, of := range parts {
			if err != nil {
				of.lost, changed[k] = true, wire.NotKnown
			} else if permits[k] != wire.NotKnown { // otherwise an attempt before has changed it
				changed[k] = permits[k]
			}
		}
		return is, err
	})
	p.settlements.mu.Lock()
	defer p.settlements.mu.Unlock()
	for k, of := range parts {
		problem := err
		if err != nil && reply != nil { // it says which limits have problems
			problem = reply.Problem(b.Used[k].Limit)
		}
		switch {
		case changed[k] != wire.NotKnown:
			*of.cost += changed[k]
		case problem != nil && of.lost:
			failed[of.charge] = problem
			continue
		case problem == nil && of.lost: // the least that Redis may count, so that what the call uses later counts
			*of.cost = min(*of.cost, of.used)
		}
		of.used = -1
		failed[of.charge] = cmp.Or(failed[of.charge], problem)
	}
	return failed
}

// flush sends what waits, and returns when these reports have their outcomes. After the last flush, reports do not wait.
func (p *Process) flush(last bool) {
	s := &p.settlements
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.next = s.closed || last, time.Time{}
	until := s.over
	if s.sending { // what waits needs one more
		until++
	}
	if len(s.waiting) > 0 {
		until++
	}
	for p.settleNext(); s.over < until; {
		s.idle.Wait()
	}
}
