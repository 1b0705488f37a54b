package queuemodel

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Leave is the script leave, for one item.
func (r *Redis) Leave(who Caller, limits []Limit, limit int, what, which string, cost float64) ([]Head, float64) {
	c := r.begin(who, limits)
	s := c.load(limit)
	left := 0.0
	switch what {
	case "turn":
		left = c.giveBack(s, which, cost)
	case "book":
		left = c.book(s, which, cost)
	case "drop":
		c.ends(s, which, cost)
	case "done":
		left = c.done(s, which, cost)
	case "keep":
		left = c.keepSlots(s, which, cost)
	default:
		for _, p := range s.places {
			if p.id == c.Process+":"+which && p.cost == cost {
				s.refund(p)
			}
		}
		if s.leave(c.Process+":"+which, cost) {
			left = cost
		}
	}
	return c.heads(), left
}

// Report is how much a call has used, in place of a cost or of an earlier report.
type Report struct {
	ID         string // empty: spent without Redis
	Cost, Used float64
	Flow       *Flow
	Again      bool // permits may come back again; without an ID: no limit held
}

// Settle is the script settle, for one item. It returns by how many permits the use of the limit has changed, and
// whether the call was known.
func (r *Redis) Settle(who Caller, limits []Limit, limit int, is Report) ([]Head, float64, bool) {
	c := r.begin(who, limits)
	s := c.load(limit)
	changed, known := 0.0, false
	switch was, now := is.ID+":"+number(is.Cost), is.ID+":"+number(is.Used); {
	case is.ID == "":
		changed, known = c.away(s, is), true
	case s.kind == "r":
		used := s.used
		if changed, known = c.settle(s, is, 0); known && s.used == used { // it is repeated
			return c.heads(), changed, true
		}
	default:
		record, recorded := s.records[was]
		_, repeated := s.records[now]
		if s.kind != "s" && !recorded && repeated {
			return c.heads(), is.Used - is.Cost, true
		}
		if s.kind == "s" || !recorded && is.Used <= is.Cost {
			break
		}
		delete(s.records, was)
		if !recorded {
			record = c.record(s, c.at) + 0.5
		}
		if is.Used < is.Cost && record != math.Floor(record) { // its first record was lost
			break
		}
		if changed, known = c.settle(s, is, record); is.Used <= is.Cost {
			now = is.ID + ":" + number(is.Cost+changed)
		}
		if is.Used > is.Cost || is.Again {
			s.records[now] = record
		}
	}
	if known && is.ID != "" {
		s.corrected(is.Flow, is.Used-is.Cost)
	}
	if known && is.Used < is.Cost {
		c.sooner(s)
	}
	return c.heads(), changed, known
}

// sooner notes that permits came back.
func (c *call) sooner(s *State) {
	if len(s.places) > 0 && (s.head != s.places[0].id || s.since > c.at) {
		s.head, s.since = s.places[0].id, math.Ceil(max(c.at, c.ahead(s, 0, s.places[0].cost)))
	}
}

func (c *call) away(s *State, is Report) float64 {
	used := is.Used
	if s.isNew || c.Now-s.seen > is.Cost/2 {
		s.closed = c.Now + ahead
		switch s.kind {
		case "p", "w":
			if s.settles {
				s.lower(0)
			}
			s.atLeast(s.closed)
		case "q", "r":
			s.paused = max(s.paused, c.Now+ahead)
		}
	}
	switch has := math.Ceil(min(s.b, (c.at-s.free-s.part)/s.a)); {
	case is.Again && s.kind == "p":
		used = min(used, max(0, has))
	case is.Again && s.kind == "w" && s.free+s.part > c.at:
		used = 0
	case is.Again && s.kind == "w":
		used = min(used, math.Ceil(s.storedAt(c.at)))
	}
	if used == 0 || (s.kind == "p" || s.kind == "w") && c.Now < s.closed {
		return 0
	}
	at := c.at
	if s.kind == "r" {
		at = max(at, s.moment+s.offset)
	}
	c.spend(s, used, at, "")
	s.last = nil
	return used
}

// Pause is the script pause, for one limit. With an `every` above 0 it is a hard stop.
func (r *Redis) Pause(who Caller, limits []Limit, micros, every float64) ([]Head, float64) {
	c := r.begin(who, limits)
	s := c.load(0)
	keeps := 0.0 // a renewed stop without a known end keeps its end
	if every > 0 {
		if s.probe > 0 && every < micros {
			keeps = 12 * every
		}
		s.probe = math.Ceil(c.Now + every)
	}
	if c.Now+micros > s.paused+keeps {
		s.paused = math.Ceil(c.Now + micros)
		s.anew(s.paused)
		if (s.kind == "p" || s.kind == "w") && every == 0 { // a stop keeps the permits
			till := s.paused
			if s.kind == "p" { // one permit is there then
				till -= s.a
			}
			s.held += max(0, till-s.free-s.part)
			s.atLeast(till)
		}
	}
	return c.says(), s.paused - c.Now
}

// Probe is the script pause for a call that may probe a hard stop, for one limit.
func (r *Redis) Probe(who Caller, limits []Limit, every float64) ([]Head, float64) {
	c := r.begin(who, limits)
	s, answer := c.load(0), 0.0
	switch {
	case s.probe == 0:
	case s.probe > c.Now && s.probe <= c.Now+every:
		answer = 2
	default:
		s.probe, answer = math.Ceil(c.Now+every), s.paused
	}
	return c.says(), answer
}

// Resume is the script resume, for one limit. With the end of a stop, it ends that stop alone.
func (r *Redis) Resume(who Caller, limits []Limit, stop ...float64) []Head {
	c := r.begin(who, limits)
	s := c.load(0)
	if len(stop) > 0 && (stop[0] != s.paused || s.probe == 0) {
		return c.heads()
	}
	if s.paused > 0 {
		first := 0.0
		if s.kind == "p" {
			first = s.a
		}
		turnsOut := s.paused <= c.Now+ahead && s.free+s.part > s.paused-first
		if (s.kind == "p" || s.kind == "w") && !turnsOut {
			s.advance(-min(s.held, s.paused-c.Now))
		}
		s.paused, s.held, s.probe = 0, 0, 0
		s.anew(c.at)
	}
	s.resumed = s.epoch
	return c.heads()
}

// Level is the script level, for one limit that only loses permits.
func (r *Redis) Level(who Caller, limits []Limit, permits float64) ([]Head, float64) {
	c := r.begin(who, limits)
	s := c.load(0)
	left := 0.0
	switch s.kind {
	case "p":
		left = min(s.b, (c.at-s.free-s.part)/s.a)
		permits = min(permits, s.b) - s.early(c.at)
	case "q":
		left = s.a - s.window[s.edges[0]]
	case "r":
		for ; left < math.Floor(s.a); left++ {
			if moment, ok := s.momentOf(s.used + left + 1 - s.a); ok && moment > c.at-s.offset-s.b {
				break
			}
		}
	}
	if permits < left {
		cost := left - permits
		s.last = nil
		c.spend(s, cost, c.at, "")
	}
	return c.heads(), math.Floor(left)
}

// early returns the permits of the turns that are not due yet. Only turns whose costs are settled count.
func (s *State) early(at float64) (permits float64) {
	ids := slices.SortedFunc(maps.Keys(s.records), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.records[b], s.records[a]), cmp.Compare(b, a))
	})
	due := s.free + s.part
	for _, id := range ids[:min(64, len(ids))] {
		if due <= at {
			break
		}
		cost, _ := strconv.ParseFloat(id[strings.LastIndexByte(id, ':')+1:], 64)
		permits, due = permits+cost, due-cost*s.a
	}
	return permits
}

// Set is the script set, for one limit. With a 0, the limit of the processes is in force again.
func (r *Redis) Set(who Caller, limits []Limit, a, b, micros float64) []Head {
	c := r.begin(who, limits)
	s := c.load(0)
	if a == 0 {
		s.setUntil = 0
		c.become(s, s.ownA, s.ownB)
		return c.heads()
	}
	s.setUntil = 9e15
	if micros > 0 {
		s.setUntil = math.Ceil(c.Now + micros)
	}
	c.become(s, a, b)
	return c.heads()
}

// record is called before a spending whose cost is settled later.
func (c *call) record(s *State, due float64) float64 {
	switch s.kind {
	case "p":
		if !s.settles && s.free+s.part > s.empty(due) {
			s.refundable = math.Ceil(due + s.b*s.a)
		}
		s.settles = true
		return s.spendings + 1
	case "q":
		return math.Ceil(due)
	case "w":
		return c.Now
	}
	return 0
}
