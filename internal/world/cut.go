package world

import (
	"slices"
	"time"
)

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
