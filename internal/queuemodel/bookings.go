package queuemodel

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// booking is the stored state of a call that is made later, perhaps by another process.
type booking struct {
	id        string
	cost, tag float64
	counts    bool // it is expected back, to have its turn here
}

const (
	forgotten  = 3600e6 // a booking that is so late is forgotten
	latecomers = 600e6  // bookings are kept for so long after the last one was due back
	patient    = 10e6   // if a booking came back within this time, others will, too
)

func (s *State) find(id string, cost float64) int {
	return slices.IndexFunc(s.bookings, func(b booking) bool { return b.id == id && b.cost == cost })
}

// tagOf returns the tag that is stored under an ID, or 0.
func (s *State) tagOf(id string, cost float64) float64 {
	if i := s.find(id, cost); i >= 0 {
		return s.bookings[i].tag
	}
	return 0
}

func (s *State) drop(id string, cost float64) {
	if i := s.find(id, cost); i >= 0 {
		s.bookings = slices.Delete(s.bookings, i, i+1)
	}
}

// ends ends the booking of a call that came back, or will not be made.
func (c *call) ends(s *State, id string, cost float64) {
	if i := s.find(id, cost); i >= 0 && s.bookings[i].counts {
		s.returned = math.Floor(c.at)
	}
	s.drop(id, cost)
}

// keep stores a tag of a call that is due back by a moment. A new booking removes some that are no longer
// expected: none has to stay away longer than span.
func (c *call) keep(s *State, b booking, by float64) {
	s.latest = max(s.latest, math.Ceil(by+latecomers))
	s.span = max(s.span, math.Ceil(by-b.tag))
	if i := s.find(b.id, b.cost); i >= 0 {
		if s.bookings[i].counts && !b.counts {
			s.returned = math.Floor(c.at)
		}
		s.bookings[i] = b
		return
	}
	old := math.Floor(c.Now - s.span - forgotten)
	if old > 0 {
		s.forget(true, func(tag float64) bool { return tag <= old }, 1)
		s.forget(false, func(tag float64) bool { return tag <= old }, -1)
	}
	s.bookings = append(s.bookings, b)
}

// forget removes up to 64 bookings, the lowest first or, with -1, the highest.
func (s *State) forget(counts bool, old func(tag float64) bool, order int) {
	var gone []booking
	for _, b := range s.bookings {
		if b.counts == counts && old(b.tag) {
			gone = append(gone, b)
		}
	}
	slices.SortFunc(gone, func(a, b booking) int {
		if a.tag != b.tag {
			return order * int(math.Copysign(1, a.tag-b.tag))
		}
		return strings.Compare(nameOf(a), nameOf(b))
	})
	for _, b := range gone[:min(64, len(gone))] {
		s.drop(b.id, b.cost)
	}
}

func nameOf(b booking) string { return b.id + ":" + strconv.FormatFloat(b.cost, 'f', 0, 64) }

// expected returns how many permits the bookings before a tag need: their number, at the mean cost of all
// that count. 0: before a new call.
func (s *State) expected(tag float64) float64 {
	var wanted, counted, before float64
	for _, b := range s.bookings {
		if !b.counts {
			continue
		}
		wanted, counted = wanted+b.cost, counted+1
		if b.tag > s.front && (tag == 0 || b.tag < tag) {
			before++
		}
	}
	if counted == 0 {
		return 0
	}
	return before * wanted / counted
}

// returning returns when a call with an ID is expected to have its turn.
func (c *call) returning(s *State, p Part, patience float64) float64 {
	moment := max(c.at, s.paused, c.next(s, p.Cost, c.at), c.ahead(s, s.before(p.Tag)+s.expected(p.Tag), p.Cost))
	if p.Tag == 0 || moment-c.at <= patience {
		return moment
	}
	return c.amongOthers(s, p.Tag, moment)
}

// had notes that a call with an ID had its turn: the bookings before it did not come back in time. It
// returns its tag. If the tag is new, it is after the tags of all booked calls. 0: no other call is booked.
func (c *call) had(s *State, id string, p Part, isNew bool) float64 {
	c.ends(s, id, p.Cost)
	if len(s.bookings) == 0 || isNew && c.at-s.returned < patient {
		return p.Tag
	}
	if p.Tag == 0 {
		p.Tag = c.newTag(s)
	}
	s.front = max(s.front, min(p.Tag, max(s.seq, math.Floor(c.at)))) // no tag is later, except one that a client made up
	s.seq = max(s.seq, s.front)
	return p.Tag
}

// reached returns how far virtual moves with the turn of a call that has a tag. It does not pass the next booking that is
// expected, unless the call was booked itself, or no booking came back lately.
func (c *call) reached(s *State, tag float64, wasBooked bool) float64 {
	if !wasBooked && c.at-s.returned < patient {
		for _, b := range s.bookings {
			if b.counts && b.tag > max(s.front, s.virtual-1) {
				tag = min(tag, b.tag)
			}
		}
	}
	return tag
}

// book is the verb book of the script leave: the call no longer waits in this process.
func (c *call) book(s *State, which string, cost float64) (left float64) {
	number, rest, _ := strings.Cut(which, " ")
	text, id, _ := strings.Cut(rest, " ")
	tag, _ := strconv.ParseFloat(text, 64)
	if s.leave(c.Process+":"+number, cost) {
		left = cost
	}
	c.keep(s, booking{id, cost, math.Abs(tag), tag > 0}, c.returning(s, Part{Cost: cost, Tag: math.Abs(tag)}, 0))
	return left
}
