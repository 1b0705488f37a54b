package queuemodel

import "math"

// step moves all moments of a limit by as much as Redis's clock has stepped.
func (c *call) step(s *State, l Limit) {
	micros, clock := 0.0, l.Clock
	if s.seen > c.Now {
		if micros = c.Now - s.seen; l.Version == s.version && clock > 0 {
			micros = min(micros, c.Now-clock)
		}
		s.steppedBack, s.steppedAt, s.steppedTill = s.steppedBack-micros, s.version+1, c.Now+6e7
	} else {
		ahead := c.Now - clock
		if l.Version > 0 && l.Version < s.steppedAt { // the caller has had no reply since the clock stepped back
			ahead += s.steppedBack
		}
		if !s.blind {
			ahead = min(c.Now-s.seen, ahead)
		}
		if clock > 0 && ahead > 1e6 {
			micros = ahead
		}
		if c.Now > s.steppedTill {
			s.steppedBack, s.steppedAt = 0, 0
		}
	}
	hidden := s.blind && micros > 0
	s.blind = micros == 0 && (s.blind || c.Now-s.seen > 1e6) && l.Version == 0 && (s.kind == "p" || s.kind == "w")
	if micros == 0 {
		return
	}
	if s.head = ""; hidden {
		c.remember(s, l.Reach, true, math.Inf(1))
		return
	}
	s.urgent = 0
	switch s.kind {
	case "p", "w":
		s.advance(micros)
	case "r":
		s.offset += micros
	case "s":
		s.checked = 0
		if s.till > 0 {
			s.till += micros
		}
	}
	if s.paused > 0 {
		s.paused += micros
	}
	if s.closed > 0 {
		s.closed += micros
	}
	if s.returned > 0 {
		s.returned += micros
	}
	if s.setUntil > 0 {
		s.setUntil += micros
	}
	if s.latest > 0 {
		s.latest += micros
	}
	if s.span > 0 {
		s.span = max(0, s.span+micros)
	}
}
