package queuemodel

import (
	"math"
	"slices"
)

func (s *State) set(free float64) {
	s.free = math.Floor(free)
	s.part = free - s.free
}

func (s *State) advance(micros float64) {
	part := s.part + micros
	s.free += math.Floor(part)
	s.part = part - math.Floor(part)
}

func (s *State) atLeast(free float64) {
	if s.free+s.part < free {
		s.set(free)
		s.last = nil // the last spending no longer comes back
	}
}

// ahead: every granted turn is due within that time.
const ahead = 1e6

// renew is how often the TTL of a state is renewed.
const renew = 10e6

// late is how long a turn may be used if costs are settled.
const late = 20000

func (s *State) empty(at float64) float64 { return at - s.b*s.a }

func (s *State) most() float64 { return s.b / s.a }

func (s *State) windowAt(moment float64) int {
	for k := len(s.edges) - 1; k >= 0; k-- {
		if moment >= s.edges[k] {
			return k
		}
	}
	return 0
}

func (s *State) begin(k int) float64 {
	last := len(s.edges) - 1
	if k <= last {
		return s.edges[k] + s.b
	}
	return s.edges[last] + float64(k-last)*(s.edges[last]-s.edges[last-1]) + s.b
}

// momentOf returns when permit n was spent, and false if the permit was never spent or no longer counts.
func (s *State) momentOf(n float64) (float64, bool) {
	if n <= 0 {
		return 0, false
	}
	number := s.used
	for i := len(s.log) - 1; i >= 0; i-- {
		e := s.log[i]
		if n > number-e.cost {
			return e.moment, true
		}
		number -= e.cost
	}
	return 0, false
}

func (s *State) inWindow() (sum float64) {
	for _, e := range s.log {
		sum += e.cost
	}
	return sum
}

func (s *State) storedAt(at float64) float64 {
	return min(s.most(), s.stored+max(0, at-s.free-s.part)/s.a)
}

func (s *State) price(stored, permits float64) float64 {
	high, slope := stored-s.most()/2, 4*s.a*s.a/s.b
	above := min(permits, max(0, high))
	return permits*s.a + above*slope*(2*high-above)/2
}

func (c *call) next(s *State, cost, at float64) float64 {
	switch s.kind {
	case "p":
		return max(at, max(s.free+s.part, s.empty(at))+cost*s.a)
	case "q":
		for k := s.windowAt(at); k < len(s.edges)-1; k++ {
			moment := max(at, s.begin(k))
			if s.window[s.edges[k]]+cost <= s.a && math.Ceil(moment) < s.edges[k+1]-s.b {
				return moment
			}
		}
		return max(at, s.begin(len(s.edges)-1))
	case "r":
		moment, ok := s.momentOf(s.used + cost - s.a)
		if !ok {
			return max(at, s.moment+s.offset)
		}
		return max(at, s.moment+s.offset, moment+s.offset+s.b)
	case "s":
		if s.inUse()+cost > s.a {
			c.sweep(s)
		}
		return max(at, c.ahead(s, 0, cost))
	default:
		return max(at, s.free+s.part)
	}
}

// mostLows is how many entries the lows of a paced limit have.
const mostLows = 16

// lower notes how far below full the bucket is.
func (s *State) lower(micros float64) {
	s.spendings++
	for len(s.lows) > 0 && s.lows[len(s.lows)-1].micros >= micros {
		s.lows = s.lows[:len(s.lows)-1]
	}
	s.lows = append(s.lows, spending{s.spendings, micros})
	if len(s.lows) <= mostLows {
		return
	}
	closest, gap := 0, math.Inf(1)
	for k := range mostLows {
		if step := s.lows[k+1].micros - s.lows[k].micros; step < gap {
			closest, gap = k, step
		}
	}
	s.lows[closest].number = s.lows[closest+1].number
	s.lows = slices.Delete(s.lows, closest+1, closest+2)
}

// correct returns how much of a refund the bucket cannot have lost, and changes what it lacked since. A surcharge
// raises that where the bucket was not full.
func (s *State) correct(micros, record float64) float64 {
	k := slices.IndexFunc(s.lows, func(low spending) bool { return low.number > record })
	if k < 0 {
		return micros
	}
	lack := s.lows[k].micros
	micros = max(micros, -lack)
	for n := range s.lows {
		if n >= k && micros < 0 || n > k && lack > 0 {
			s.lows[n].micros += micros
		}
	}
	if micros < 0 {
		after := s.lows[k].micros
		kept := slices.DeleteFunc(slices.Clone(s.lows[:k]), func(low spending) bool { return low.micros >= after })
		s.lows = append(kept, s.lows[k:]...)
	}
	return micros
}

func (c *call) spend(s *State, cost, at float64, id string) {
	switch s.kind {
	case "p":
		if s.settles {
			s.lower(max(0, s.free+s.part-s.empty(at+late)))
		}
		s.atLeast(s.empty(at))
		s.advance(cost * s.a)
	case "q":
		k := s.windowAt(at)
		s.window[s.edges[k]] += cost
	case "r":
		s.used, s.moment = s.used+cost, math.Ceil(max(at-s.offset, s.moment))
		s.log = append(s.log, entry{s.moment, cost, id})
		for n := 0; n < 4 && len(s.log) > 0 && s.log[0].moment <= c.Now-s.offset-s.b; n++ {
			s.log = s.log[1:]
		}
	case "s":
		s.take(id, cost, c.Now)
	case "w":
		s.stored = s.storedAt(at)
		s.atLeast(at)
		s.advance(s.price(s.stored, cost))
		s.stored = max(0, s.stored-cost)
	}
}

func (c *call) ahead(s *State, before, cost float64) float64 {
	switch s.kind {
	case "p":
		return s.free + s.part + (before+cost)*s.a
	case "q":
		over := before + cost - max(0, s.a-s.window[s.edges[0]])
		if over <= 0 {
			return s.begin(0)
		}
		return s.begin(1 + int(math.Ceil((over+min(s.window[s.edges[1]], s.a))/s.a)) - 1)
	case "r":
		before = math.Ceil(before) // a rank times a mean
		rounds := math.Ceil((before + cost) / s.a)
		moment, ok := s.momentOf(s.used + before + cost - rounds*s.a)
		switch {
		case !ok && rounds == 1: // nobody knows since when these permits are there
			return 0
		case !ok:
			return c.at - s.b + rounds*s.b
		}
		return moment + s.offset + rounds*s.b
	case "s":
		over := s.inUse() + before + cost - s.a
		if over <= 0 {
			return max(c.at, s.till)
		}
		return max(s.till, c.at+max(c.Horizon+1, math.Ceil(over/s.a*s.mean)))
	default:
		if before == 0 {
			return s.free + s.part
		}
		return max(c.at, s.free+s.part) + s.price(s.storedAt(c.at), before)
	}
}

func (s *State) usable(cost, due float64) float64 {
	switch s.kind {
	case "p":
		until := s.free + s.part + (s.b-cost)*s.a
		if s.settles {
			until = min(until, due+late)
		}
		return until
	case "q":
		return s.edges[s.windowAt(due)+1] - s.b
	case "s":
		return due + 1e6
	case "r":
		if s.a == s.callers.A && s.b == s.callers.B && s.setUntil == 0 {
			return due + s.callers.Late
		}
		return due
	default:
		return due
	}
}

// overflows reports whether a permit is lost before a moment, or a part of one if another call is first in the queue.
func (s *State) overflows(due float64, others bool) bool {
	part := s.a
	if others {
		part = 0
	}
	return s.kind == "p" && s.free+s.part < s.empty(due)-part || s.kind == "s"
}

func (c *call) unspend(s *State, cost, due float64) {
	switch s.kind {
	case "p", "w":
		s.advance(-cost * s.a)
	case "q":
		if due >= s.edges[0] {
			if k := s.windowAt(due); k < 2 {
				s.window[s.edges[k]] = max(0, s.window[s.edges[k]]-cost)
			}
		}
	case "r":
		for cost > 0 && len(s.log) > 0 {
			last := &s.log[len(s.log)-1]
			size := min(last.cost, cost)
			s.used -= size
			cost -= size
			if last.cost -= size; last.cost == 0 {
				s.log = s.log[:len(s.log)-1]
			}
		}
	}
}

func (c *call) life(s *State) float64 {
	return s.b*s.a*one(s.kind == "p") + s.b*one(s.kind == "w") + max(0, s.free-c.Now)
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (c *call) reach(s *State) []float64 {
	switch s.kind {
	case "p":
		return []float64{math.Ceil(s.free + s.part - c.at)}
	case "q":
		return []float64{s.edges[0], s.window[s.edges[0]], s.edges[1], s.window[s.edges[1]]}
	case "r":
		return []float64{s.inWindow(), s.moment + s.offset - c.at}
	case "s":
		return []float64{s.inUse(), 0}
	default:
		return []float64{math.Ceil(s.free + s.part - c.at), s.stored}
	}
}

func (c *call) remember(s *State, reach []float64, unknown bool, stepped float64) {
	switch s.kind {
	case "p":
		if len(reach) > 0 {
			s.atLeast(c.at + reach[0])
		}
	case "q":
		for k := range 2 {
			for n := 0; n+1 < len(reach); n += 2 {
				if reach[n] == s.edges[k] && reach[n+1] > s.window[s.edges[k]] {
					s.window[s.edges[k]], s.last = reach[n+1], nil
				}
			}
		}
		return
	case "r":
		if len(reach) < 2 || reach[1]+s.b <= 0 {
			return
		}
		if missing := min(reach[0], s.a) - s.inWindow(); missing > 0 {
			s.moment = max(s.moment, math.Ceil(c.at+reach[1]-s.offset))
			s.used += missing
			s.log = append(s.log, entry{s.moment, missing, "lost"})
		}
		return
	case "s":
		from := c.at
		if !unknown {
			from = min(c.at, s.epoch+c.Way)
		}
		if (unknown || len(reach) > 1 && reach[1] > -(2+min(1, reach[0]))*renew) && from+3e6 > c.at {
			s.till = max(s.till, math.Ceil(from+3e6))
		}
		return
	case "w":
		if len(reach) > 1 && c.at+reach[0] > s.free {
			s.stored = min(reach[1], s.most())
			s.set(math.Floor(c.at + reach[0]))
			s.last = nil
		}
	}
	if unknown && s.kind == "p" {
		s.atLeast(min(c.Now+ahead, s.free+s.part+stepped))
	} else if unknown {
		s.atLeast(c.Now + ahead)
	}
}

func (c *call) settle(s *State, is Report, record float64) (changed float64, known bool) {
	cost, used := is.Cost, is.Used
	switch s.kind {
	case "p":
		micros := (used - cost) * s.a
		if micros < 0 && c.Now < s.refundable {
			micros = 0
		}
		micros = s.correct(micros, record)
		s.advance(micros)
		return math.Ceil(micros / s.a), true
	case "q":
		c.unspend(s, cost-used, record)
		if record < s.edges[0] {
			return 0, true
		}
	case "w":
		s.advance(max(0, used-cost) * s.a)
		return max(0, used-cost), true
	case "r":
		more := is.ID + ":" + number(used)
		for i := len(s.log) - 1; i >= 0 && i >= len(s.log)-64; i-- {
			e := &s.log[i]
			if e.id == is.ID && e.cost == used || e.id == more {
				return used - cost, true
			}
			if e.id == is.ID && e.cost == cost {
				if e.cost = used; used == 0 {
					s.log = slices.Delete(s.log, i, i+1)
				}
				s.used += used - cost
				return used - cost, true
			}
		}
		if used <= cost {
			return 0, false
		}
		c.spend(s, used-cost, max(c.at, s.moment+s.offset), more)
	}
	return used - cost, true
}
