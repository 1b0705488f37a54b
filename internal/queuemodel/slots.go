package queuemodel

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// holder is a call that holds slots.
type holder struct {
	id          string
	cost, since float64
}

// moment is the time, in micros, that a process has to ask for a free slot after the message.
const moment = 300e3

func (s *State) inUse() (sum float64) {
	for _, h := range s.holders {
		sum += h.cost
	}
	return sum
}

func (s *State) take(id string, cost, since float64) {
	if id != "" && !slices.ContainsFunc(s.holders, func(h holder) bool { return h.id == id && h.cost == cost }) {
		s.holders = append(s.holders, holder{id, cost, math.Floor(since)})
	}
}

func (s *State) letGo(id string, cost float64) bool {
	n := len(s.holders)
	s.holders = slices.DeleteFunc(s.holders, func(h holder) bool { return h.id == id && h.cost == cost })
	return len(s.holders) < n
}

// sweep removes the calls of dead processes. In the model all other processes are known to live.
func (c *call) sweep(s *State) {
	died := 0.0
	for _, at := range c.Dead {
		died = max(died, at)
	}
	if len(s.holders) == 0 || died < s.checked && c.Now-s.checked < 8e6 {
		return
	}
	s.checked = c.Now
	n := len(s.holders)
	s.holders = slices.DeleteFunc(s.holders, func(h holder) bool {
		process, _, _ := strings.Cut(h.id, ":")
		return c.Dead[process] > 0
	})
	if len(s.holders) < n {
		c.sooner(s)
	}
}

// copied reports whether a call was given its slots after a message about it was sent: that comes
// late, and is not the last one.
func (c *call) copied(s *State, id string, cost float64) bool {
	return slices.ContainsFunc(s.holders, func(h holder) bool {
		return h.id == id && h.cost == cost && s.clock > 0 && h.since > s.clock && h.since <= c.Now
	})
}

func (c *call) done(s *State, number string, cost float64) float64 {
	id := c.Process + ":" + number
	if c.copied(s, id, cost) {
		return 0
	}
	for _, h := range s.holders {
		if h.id == id && h.cost == cost {
			held := max(0, c.Now-h.since)
			if s.mean == 0 {
				s.mean = held
			} else {
				s.mean = math.Floor(s.mean + (held-s.mean)/8)
			}
			s.letGo(id, cost)
			c.sooner(s)
			return cost
		}
	}
	return 0
}

func (c *call) keepSlots(s *State, which string, cost float64) float64 {
	number, text, _ := strings.Cut(which, " ")
	since, _ := strconv.ParseFloat(text, 64)
	s.take(c.Process+":"+number, cost, min(since, c.Now))
	if s.inUse() > s.a {
		return 0
	}
	return cost
}

// bury removes the first places of dead processes.
func (c *call) bury(s *State) {
	asking := c.asking
	c.asking = nil
	c.clear(s, "")
	c.asking = asking
}

// If calls wait, wake frees the slots of dead processes. It also removes the first places of a dead
// process; at a limit of slots it does so only if some are free.
func (c *call) wake(s *State) {
	if s.kind != "s" {
		if len(s.places) > 0 && s.paused <= c.Now && (math.Floor(c.Now/renew) != math.Floor(s.seen/renew) || c.Dead[s.places[0].process] > 0) {
			c.bury(s)
		}
		return
	}
	if len(s.places) > 0 {
		c.sweep(s)
	}
	free := s.a - s.inUse()
	if len(s.places) == 0 || free <= 0 || s.till > c.Now || s.paused > c.Now {
		return
	}
	c.sooner(s)
	late, n := c.at-s.since, min(free, 64)
	again := math.Floor(late/moment) > max(0, math.Floor((late-c.Now+s.seen)/moment))
	if again { // the process has not asked: look at the first places of all processes
		n = 64
	}
	for _, p := range s.places[:min(len(s.places), int(n))] {
		if free -= p.cost; free < 0 && !again {
			return
		}
		if c.Dead[p.process] > 0 {
			c.bury(s)
			c.wake(s)
			return
		}
	}
}
