package queuemodel

import "math"

// Flow is the flow of a call.
type Flow struct {
	Name   string
	Weight float64
	Urgent float64 // the part of the limit that urgent calls have together; 0: it is not urgent
}

// stretch is where the last call of a flow ends, and the gap of left places; from == to: no gap.
type stretch struct{ ends, from, to float64 }

const (
	leastPace = 1000
	mostShare = 1e13
	lastTag   = 8e15
	beforeAll = 1e14 // no call that waits at another limit has a tag that is further below virtual

	trust     = 0.7
	scanDense = 256
	scanGap   = 64
)

var nobody = Flow{Weight: 1}

// pace is how many micros a permit takes.
func (s *State) pace() float64 {
	switch s.kind {
	case "q":
		return (s.edges[2] - s.edges[1]) / s.a
	case "r":
		return s.b / s.a
	case "s":
		return s.mean / s.a
	default:
		return s.a
	}
}

func (s *State) share(cost, weight float64) float64 {
	return max(1, min(mostShare, math.Floor(cost*max(s.pace(), leastPace)/weight)))
}

// of returns the stretch of a flow, as far as the queue has not passed it.
func (s *State) of(name string) stretch {
	f := s.flows[name]
	f.ends, f.from = max(f.ends, s.virtual), max(f.from, s.virtual)
	if f.to <= f.from {
		f.from, f.to = 0, 0
	}
	return f
}

// after returns the tag that is later by size. Among dense tags, size is permits of calls that name no
// flow.
func (s *State) after(tag, size float64) float64 {
	if tag >= s.dense {
		return tag + size
	}
	permits, scanned := max(1, size/s.share(1, 1)), 0
	for _, p := range s.places {
		if p.tag < tag || p.tag >= s.dense {
			continue
		}
		if scanned++; scanned > scanDense {
			break
		}
		if permits <= 0 {
			return max(math.Floor(p.tag), tag+1)
		}
		if !p.named {
			permits -= p.cost
		}
	}
	return s.dense + size
}

func (s *State) keepFlow(name string, f stretch) {
	if f.to > 0 && f.to >= f.ends {
		f.ends, f.from, f.to = f.from, 0, 0
	}
	if f.from >= f.to {
		f.from, f.to = 0, 0
	}
	s.flows[name] = f
}

func (c *call) beginShares(s *State, tag float64) {
	if s.virtual > 0 {
		return
	}
	s.virtual = max(1, math.Floor(c.at))
	if len(s.places) > 0 {
		first := s.places[0]
		s.virtual = max(1, math.Floor(first.tag))
		if len(s.places) > 1 || !first.named {
			s.dense = max(s.seq+1, s.virtual)
			s.keepFlow("", stretch{ends: s.dense})
		}
		if first.named && first.flow.Urgent == 0 {
			s.keepFlow(first.flow.Name, stretch{ends: s.virtual + s.share(first.cost, first.flow.Weight)})
		}
	} else if tag > 0 {
		s.virtual = min(tag, s.virtual)
	}
}

// debts returns how many flows virtual has not passed.
func (s *State) debts() (flows float64) {
	for _, f := range s.flows {
		if f.ends > s.virtual {
			flows++
		}
	}
	return flows
}

// amongOthers returns when a booked call is due back if other flows wait, too.
func (c *call) amongOthers(s *State, tag, moment float64) float64 {
	flows, next := 0.0, s.virtual+s.share(1, 1)
	for _, f := range s.flows {
		if f.ends > next {
			flows++
		}
	}
	if s.virtual == 0 || tag <= s.virtual || flows < 2 {
		return moment
	}
	return moment + trust*max(0, c.at+(tag-s.virtual)*flows-moment)
}

// urgentTag returns the tag of an urgent call: it is charged to the part for urgent calls.
func (c *call) urgentTag(s *State, cost, part float64) float64 {
	pace, clock, tag := max(1, s.pace()), max(c.at, s.paused), s.virtual
	begin := max(clock, s.urgent)
	if begin > clock {
		tag = s.after(tag, max(1, math.Floor((begin-clock)*max(1, leastPace/pace)*(1-part)/max(1, s.debts()))))
	} else {
		tag = max(1, tag-beforeAll)
	}
	s.urgent = math.Floor(begin + cost*pace/part)
	return min(tag, lastTag)
}

func (c *call) fairTag(s *State, cost float64, flow Flow, settles bool) float64 {
	if flow.Urgent > 0 {
		return c.urgentTag(s, cost, flow.Urgent)
	}
	size := s.share(cost, flow.Weight)
	f := s.of(flow.Name)
	tag := f.ends
	if tag == s.virtual {
		tag += min(float64(len(s.places)), size-1)
	}
	f.ends = s.after(f.ends, size)
	if settles {
		s.behind[flow.Name] = tag + 1
	}
	s.keepFlow(flow.Name, f)
	return min(tag, lastTag)
}

// overtaken returns the tag of a call that comes back from a booking after virtual has passed its own
// tag. It is behind the calls of its flow that came back as late.
func (s *State) overtaken(tag, cost float64, flow Flow) float64 {
	if s.virtual <= tag || flow.Urgent > 0 || s.kind == "s" {
		return tag
	}
	tag = max(s.virtual, s.late[flow.Name])
	s.late[flow.Name] = s.after(tag, s.share(cost, flow.Weight))
	return min(tag, lastTag)
}

// waitsBefore reports whether a call of a flow waits between two tags, among the first places there.
func (s *State) waitsBefore(name string, from, tag float64) bool {
	scanned := 0
	for _, p := range s.places {
		if p.tag < from || p.tag >= tag {
			continue
		}
		if scanned++; scanned > scanGap {
			break
		}
		if p.flow.Name == name && p.flow.Urgent == 0 {
			return true
		}
	}
	return false
}

// forward returns the tag of a call that asks again. A tag beyond the end of its flow is from debts that have
// ended since.
func (c *call) forward(s *State, tag float64, id string, cost float64, flow Flow, back, settles bool) float64 {
	f := s.of(flow.Name)
	if flow.Urgent == 0 && !back && tag >= max(f.ends, s.dense) && tag > s.late[flow.Name] {
		return c.fairTag(s, cost, flow, settles)
	}
	size := s.share(cost, flow.Weight)
	if f.to == 0 || f.from >= tag || tag >= f.to+size || flow.Urgent > 0 || s.waitsBefore(flow.Name, f.from, tag) {
		return tag
	}
	s.keepFlow(flow.Name, stretch{f.ends, f.from + size, f.to + size})
	for i := range s.places {
		if s.places[i].id == id && s.places[i].cost == cost {
			s.places[i].tag = f.from
		}
	}
	s.sort()
	return f.from
}

func (s *State) refund(p place) {
	if s.virtual == 0 || p.tag < s.dense || p.flow.Urgent > 0 {
		return
	}
	size := s.share(p.cost, p.flow.Weight)
	f := s.of(p.flow.Name)
	if f.ends <= max(s.virtual, p.tag) {
		return
	}
	if f.to == 0 {
		f.from = max(p.tag, s.virtual)
		f.to = f.from + size
	} else {
		first := max(min(f.from, p.tag), s.virtual)
		f.from, f.to = first, first+f.to-f.from+size
	}
	s.keepFlow(p.flow.Name, f)
}

// corrected notes that a call of a flow has used more permits than its cost, or fewer.
func (s *State) corrected(flow *Flow, permits float64) {
	if flow == nil {
		flow = &Flow{Weight: 1}
	}
	if s.virtual == 0 || flow.Urgent > 0 {
		return
	}
	f := s.of(flow.Name)
	switch size := s.share(math.Abs(permits), flow.Weight); {
	case permits > 0:
		f.ends = s.after(f.ends, size)
		s.keepFlow(flow.Name, f)
	case permits < 0 && f.ends > max(s.virtual, s.dense):
		f.ends = max(f.ends-size, s.behind[flow.Name], f.to, s.virtual, s.dense)
		s.keepFlow(flow.Name, f)
	}
}

func (c *call) served(s *State, tag float64) {
	if s.virtual > 0 && tag > 0 {
		s.virtual = max(s.virtual, min(tag, max(s.seq, math.Floor(c.at))))
	}
}

func (s *State) endShares(now float64) {
	if len(s.places) == 0 && len(s.bookings) == 0 && s.latest <= now {
		s.virtual, s.urgent, s.dense = 0, 0, 0
		clear(s.flows)
		clear(s.late)
		clear(s.behind)
	}
}
