package engine

import (
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

	used  []int64 // reported, and not sent; below 0: nothing was
	again []bool  // used is a better estimate: permits may come back again
	told  []func(was []int64, err error)
}

// NewCharge returns the charge of a call at its costs. The id is its wire.CallID. If it is empty, nothing is sent.
func NewCharge(need *Need, id string) *Charge {
	c := &Charge{need: need, id: id}
	need.each(func(p Part) { c.costs = append(c.costs, p.Cost) })
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
		c.used, c.again = slices.Repeat([]int64{-1}, len(used)), make([]bool, len(used))
	}
	for i, n := range used {
		if n >= 0 {
			c.used[i], c.again[i] = n, again
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

// settle makes one script call.
func (p *Process) settle(charges []*Charge) {
	var b Batch
	b.index = map[string]int{}
	type part struct {
		of    *Charge
		index int
	}
	var parts []part // of the items
	told := make([][]func([]int64, error), len(charges))
	was := make([][]int64, len(charges))
	p.settlements.mu.Lock()
	for k, c := range charges {
		for i, of := range c.need.Parts() {
			if used := c.used[i]; c.id != "" && used >= 0 && used != c.costs[i] {
				b.Used = append(b.Used, wire.Used{Limit: b.at(of.Limit), ID: c.id, Cost: c.costs[i], Used: used, Again: c.again[i], Flow: c.need.Flow})
				parts = append(parts, part{c, i})
			}
		}
		told[k], was[k], c.told = c.told, slices.Clone(c.costs), nil
	}
	p.settlements.mu.Unlock()
	var reply *wire.Reply // nil: Redis has not answered
	var err error
	if len(parts) > 0 {
		changed := make([]int64, len(parts))
		err = p.once(context.Background(), b.limits, func(c *wire.Call) (wire.Reply, error) {
			is, permits, err := wire.Settle(context.Background(), c, b.Used)
			if reply = nil; err == nil {
				reply = &is
			}
			for k, n := range permits {
				if n != 0 { // otherwise an attempt before has changed it
					changed[k] = n
				}
			}
			return is, err
		})
		p.settlements.mu.Lock()
		for k, of := range parts {
			of.of.costs[of.index] += changed[k]
		}
		p.settlements.mu.Unlock()
	}
	for k, c := range charges {
		failed := err
		if err != nil && reply != nil { // it says which limits have problems
			failed = nil
			c.need.each(func(of Part) {
				if i, in := b.index[of.Limit.Keys[0]]; in && failed == nil {
					failed = reply.Problem(i)
				}
			})
		}
		for _, tell := range told[k] {
			tell(was[k], failed)
		}
	}
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
