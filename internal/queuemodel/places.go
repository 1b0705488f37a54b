package queuemodel

import (
	"math"
	"slices"
)

func (s *State) total() (sum float64) {
	for _, p := range s.places {
		sum += p.cost
	}
	return sum
}

// placed returns the place of a call, or nil.
func (s *State) placed(id string, cost float64) *place {
	if i := slices.IndexFunc(s.places, func(q place) bool { return q.id == id && q.cost == cost }); i >= 0 {
		return &s.places[i]
	}
	return nil
}

func (s *State) leave(id string, cost float64) bool {
	n := len(s.places)
	s.places = slices.DeleteFunc(s.places, func(p place) bool { return p.id == id && p.cost == cost })
	return len(s.places) < n
}

// supersede removes the places that a call had in another process.
func (s *State) supersede(tag float64, id string) {
	s.places = slices.DeleteFunc(s.places, func(p place) bool { return p.tag == tag && p.id != id })
}

func (c *call) newTag(s *State) float64 {
	s.seq = max(s.seq+1, math.Floor(c.at))
	return s.seq
}

func (s *State) before(tag float64) float64 {
	if tag == 0 {
		return s.total()
	}
	rank := 0.0
	for _, p := range s.places {
		if p.tag < tag {
			rank++
		}
	}
	if rank == float64(len(s.places)) {
		return s.total()
	}
	if rank == 0 || s.total() == float64(len(s.places)) { // each call needs one permit
		return rank
	}
	sum := 0.0
	for _, p := range s.places[:min(int(rank), nearPlaces)] {
		sum += p.cost
	}
	if rank <= nearPlaces {
		return sum
	}
	others := rank - nearPlaces
	return sum + (others-math.Sqrt(others))*min(sum/nearPlaces, (s.total()-sum)/(float64(len(s.places))-nearPlaces))
}

// nearPlaces is how many places have their costs added up one by one.
const nearPlaces = 32

// farthest is how far ahead the head of a queue may have its turn, whatever its horizon is.
const farthest = 500e3

// spread is how far apart the tags may be that come back after a loss of data.
const spread = 600e6

func (c *call) entitled(s *State, p Part) float64 {
	if len(s.places) > 0 && c.overdue(s) > 0 && (c.at > c.passes(s) || c.Dead[s.places[0].process] > 0) {
		process := s.places[0].process
		if c.Dead[process] > 0 {
			process = ""
		}
		c.clear(s, process)
	}
	if len(s.places) == 0 {
		return c.ahead(s, 0, p.Cost)
	}
	if c.overdue(s) > 0 {
		c.callHead(s, 0)
	}
	switch {
	case c.overdue(s) > c.Grace, p.Tag != 0 && c.overdue(s) > 0 && c.at > c.passes(s):
		return c.at
	case p.Tag == 0:
		return math.Inf(1)
	}
	moment := c.ahead(s, s.before(p.Tag), p.Cost)
	if moment <= c.at+c.Horizon {
		c.callHead(s, 0)
	}
	return moment
}

// row is how many heads that were called leave a limit in a row before no further one is called.
const row = 2

// callHead notes that the process of the head was notified, and how many heads left before it, in a row.
func (c *call) callHead(s *State, rows int) {
	if len(s.places) > 0 && s.kind != "s" && !c.asking[s.places[0].id] && s.called != s.places[0].id {
		s.called, s.row = s.places[0].id, rows
	}
}

// overdue returns for how long the head has not asked although its permits were there.
func (c *call) overdue(s *State) float64 {
	moment := c.ahead(s, 0, s.places[0].cost)
	switch {
	case c.asking[s.places[0].id]:
		s.head, s.since, s.called = s.places[0].id, math.Ceil(max(moment, c.at)), ""
	case s.head != s.places[0].id:
		s.head, s.since = s.places[0].id, math.Ceil(max(moment, min(s.since, c.at)))
	case s.since > c.at && moment < s.since:
		s.since = math.Ceil(max(moment, c.at))
	}
	return c.at - max(s.since, s.paused)
}

// passes returns when other calls may have the permits of an overdue head.
func (c *call) passes(s *State) float64 {
	over := max(s.since, s.paused) + c.Grace
	switch s.kind {
	case "p":
		over = min(over, s.free+s.part+(s.b+1)*s.a+c.Way)
	case "w":
		over = min(over, s.free+s.part+2*s.a+c.Way)
	}
	return over
}

// paces reports whether permits come one after the other.
func (s *State) paces() bool { return s.kind == "p" || s.kind == "w" }

// comesBack returns when a waiting call asks again whose forecast is a moment.
func (c *call) comesBack(s *State, told float64, again bool) float64 {
	if len(s.places) == 0 || !s.paces() || c.overdue(s) <= 0 && !c.silent(s.places[0].process) || c.asking[s.places[0].id] {
		return told
	}
	if again && c.passes(s) < c.at {
		return told
	}
	if moment := c.passes(s) + c.Near; moment > c.at {
		return min(told, moment)
	}
	return told
}

// silent reports whether a process is dead, or has sent no heartbeat for 1.5 s.
func (c *call) silent(process string) bool {
	return c.Dead[process] > 0 || c.Beaten > 0 && c.Beaten < c.Now-1.5e6
}

// clear removes the first places of a process, or without one those of all dead processes, except those of calls
// that ask. It reports whether there were any.
func (c *call) clear(s *State, process string) bool {
	n, most, had := 0, 64, len(s.places)
	if process == "" {
		most = 256
	}
	s.places = slices.DeleteFunc(s.places, func(p place) bool {
		n++
		isDead := process == "" && c.Dead[p.process] > 0
		gone := n <= most && (isDead || p.process == process) && !c.asking[p.id]
		if gone && isDead {
			s.refund(p)
		}
		return gone
	})
	return len(s.places) < had
}
