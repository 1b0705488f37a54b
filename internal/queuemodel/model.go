// Package queuemodel is a model of package lua in Go: a limit is a queue before a meter. It keeps
// everything in plain lists and searches all of them. It is for tests, which play the same histories
// against the model and against the scripts.
package queuemodel

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limit is what a caller sends about a limit.
type Limit struct {
	Kind string // p, q, r, s, w
	Form string // the argument KIND, if the plan is of another kind than the keys
	A, B float64
	Rank float64
	Plan bool // the limit is the plan of its key, and Rank its version
	// Known, Version and Reach are from the last reply.
	Known   string
	Version float64
	Reach   []float64
	Back    string // process and serial of each ask whose turns go back, and the permits that were used
	Clock   float64
	Edges   []float64
	Late    float64 // of a rolling limit: for how many micros after its moment a turn may be used
}

// Caller is the process that asks, and the time at which it asks.
type Caller struct {
	Now, Way             float64 // micros
	Horizon, Near, Grace float64
	Run, Process         string
	Serial               int
}

// Part is what a call needs at one limit.
type Part struct {
	Limit int // index
	Cost  float64
	Tag   float64 // 0: none
}

// Item is one call, or several equal calls.
type Item struct {
	Count, Number int
	Settles       bool
	Now           bool // it does not wait: it gets a turn that is due at once, or no place
	ID            string
	// A call with an ID is booked if its turn is further away than Patience. It is not booked if its turn
	// is further away than Latest.
	Patience, Latest float64
	Within           float64 // from when it was sent: a call whose turn is later has neither turn nor place; 0: no bound
	Most             float64 // so many calls may wait or be booked at a limit; 0: any number
	Parts            []Part
	Flow             *Flow // nil: it names no flow
}

// Answer is the answer to one call.
type Answer struct {
	Status       int // 0 a place, 1 a turn, 2 refused, 3 booked, 4 too late, 5 the queue is full
	Wait, Usable float64
	Which        int       // for 0, 3, 4 and 5: the part that holds it back most, from 1
	Tags         []float64 // for a turn whose cost is settled: records
}

// Head is the part of a reply about a limit.
type Head struct {
	Version float64
	Reach   []float64
	Text    string
	Refused bool
}

type place struct {
	tag, cost   float64
	id, process string
	flow        Flow
	named       bool // it names its flow
}

type spending struct {
	number, micros float64 // paced: how far below full it was
}

type entry struct { // of a rolling window
	moment, cost float64
	id           string
}

type ask struct {
	of        string
	cost, due float64
}

// State is a limit.
type State struct {
	kind, form                      string
	kept, keptTill                  float64 // permits used before the limit became one of another kind, and until when they count
	a, b                            float64
	epoch, version, rank            float64
	ownA, ownB                      float64
	run                             string
	seen, clock, free, part         float64
	steppedBack                     float64 // by how much the clock has stepped back in the last minute
	steppedAt, steppedTill          float64 // the version that the state had then, and when that minute is over
	isNew                           bool    // it had no state
	blind                           bool    // its last caller, the first after a rest, could not know whether the clock has stepped
	setUntil, paused, held, resumed float64
	closed                          float64 // until when all that is spent without Redis is counted
	probe                           float64 // when a call may probe the hard stop; 0: there is no stop
	last                            []ask   // the last spending; of a quota also earlier ones that may come back
	places                          []place
	seq, since                      float64
	head                            string // the call whose permits came since
	called                          string // the call whose process was notified
	row                             int    // how many heads left before that one, in a row
	bookings                        []booking
	front                           float64 // the highest tag of a call with an ID that had its turn
	latest, span                    float64 // when all bookings are late; the longest time from a tag until its booking was due back
	returned                        float64 // when a booking last came back
	spendings                       float64 // paced, if costs are settled
	lows                            []spending
	refundable                      float64
	settles                         bool
	window                          map[float64]float64
	edges                           []float64
	callers                         Limit // what the caller takes for it
	log                             []entry
	used, moment, offset            float64
	stored                          float64
	records                         map[string]float64
	virtual, urgent                 float64            // the highest tag that had a turn; until when urgent calls have used their part
	dense                           float64            // the highest tag from before flows were named
	flows                           map[string]stretch // while virtual is not 0
	late                            map[string]float64 // where the last call of a flow ends that came back too late
	behind                          map[string]float64 // behind the tag of a flow's last call whose cost is settled
	holders                         []holder           // of slots
	mean, checked, till             float64
}

// Redis holds the limits, by index, when each dead process died, and when all others sent their last heartbeats. It
// is 0 if they send none.
type Redis struct {
	Limits map[int]*State
	Dead   map[string]float64
	Beaten float64
}

// New returns a Redis without limits.
func New() *Redis { return &Redis{Limits: map[int]*State{}, Dead: map[string]float64{}} }

// call is one script call.
type call struct {
	*Redis
	Caller
	at      float64
	limits  []Limit
	loaded  map[int]*State
	asking  map[string]bool
	rows    map[*State]int  // by limits that called the call for which it asks: how many heads left before it, in a row
	cleared map[*State]bool // of the places of dead processes, before a call was refused
}

func (r *Redis) begin(c Caller, limits []Limit) *call {
	return &call{Redis: r, Caller: c, at: c.Now + c.Way, limits: limits, loaded: map[int]*State{}, asking: map[string]bool{}, cleared: map[*State]bool{}}
}

func fresh(l Limit, c *call) *State {
	s := &State{kind: l.Kind, form: l.Form, a: l.A, b: l.B, ownA: l.A, ownB: l.B, isNew: true, rank: max(0, l.Rank), epoch: c.Now, seen: c.Now, run: c.Run,
		window: map[float64]float64{}, records: map[string]float64{}, flows: map[string]stretch{}, late: map[string]float64{}, behind: map[string]float64{}}
	switch l.Kind {
	case "p":
		s.set(math.Floor(c.at - l.B*l.A))
	case "w":
		s.set(math.Floor(c.at))
		s.stored = s.most()
	}
	return s
}

func (c *call) load(j int) *State {
	if s := c.loaded[j]; s != nil {
		return s
	}
	l := c.limits[j]
	s := c.Limits[j]
	isFresh := s == nil
	if isFresh {
		s = fresh(l, c)
		c.Limits[j] = s
	}
	c.loaded[j] = s
	if s.form != l.Form {
		c.convert(s, l)
		l.Reach = nil
	}
	if s.keptTill <= c.Now {
		s.kept, s.keptTill = 0, 0
	}
	s.edges, s.callers = l.Edges, l
	for len(s.edges) > 1 && c.at >= s.edges[1] {
		s.edges = s.edges[1:]
	}
	if len(s.edges) > 0 { // two windows are known
		newest := 0.0
		for w := range s.window {
			newest = max(newest, w)
		}
		older := newest // the earlier of the two
		for w := range s.window {
			older = min(older, w)
		}
		for _, w := range s.edges[:2] {
			if _, ok := s.window[w]; !ok && len(s.window) > 0 && w < older {
				s.window[w] = s.a
			}
		}
		for w := range s.window {
			if w != s.edges[0] && w != s.edges[1] {
				delete(s.window, w)
			}
		}
		for _, w := range s.edges[:2] {
			s.window[w] += 0
		}
	}
	s.clock = l.Clock
	c.step(s, l)
	c.recall(s, l, isFresh)
	if l.Rank > s.rank {
		s.ownA, s.ownB, s.rank = l.A, l.B, l.Rank
	}
	if s.setUntil > 0 && s.setUntil <= c.Now {
		s.setUntil = 0
	}
	if s.setUntil == 0 {
		c.become(s, s.ownA, s.ownB)
	}
	if s.paused <= c.Now {
		s.paused, s.held, s.probe = 0, 0, 0
	}
	if s.latest < c.Now {
		s.bookings = nil
	}
	if len(s.bookings) == 0 {
		s.span = 0
	}
	s.endShares(c.Now)
	for back := range strings.SplitSeq(l.Back, ";") {
		who, keep := back, 0.0
		if words := strings.Fields(back); len(words) == 3 {
			who = words[0] + " " + words[1]
			keep, _ = strconv.ParseFloat(words[2], 64)
		}
		c.giveBack(s, who, keep)
	}
	return s
}

func (c *call) recall(s *State, l Limit, isFresh bool) {
	epoch := 0.0
	if l.Known != "" {
		epoch, _ = strconv.ParseFloat(strings.Fields(l.Known)[0], 64)
	}
	other := c.Run != "" && s.run != "" && s.run != c.Run
	lost := epoch > 0 && (isFresh || epoch == s.epoch && s.version < l.Version)
	if epoch > 0 && (lost || epoch != s.epoch) || other {
		paced, free := s.kind == "p" || s.kind == "w", s.free
		young := paced && len(l.Reach) > 0 && l.Reach[0] > -c.life(s)-2*renew
		c.remember(s, l.Reach, other || lost && young, math.Inf(1))
		if young && !lost && epoch < s.epoch {
			s.atLeast(min(s.epoch, c.Now) + ahead)
		}
		free = max(free, c.Now+ahead)
		switch {
		case s.kind != "p" || s.paused > c.Now || s.free <= free:
		case epoch < s.epoch && s.resumed == s.epoch:
			s.free, s.part = free, 0
		default:
			s.paused, s.held, s.probe = s.free, s.free-c.Now, 0
		}
	}
	if (lost || other) && !isFresh {
		s.epoch = max(s.epoch+1, math.Floor(c.Now))
		if s.kind == "s" {
			s.holders, s.till = nil, max(s.till, math.Ceil(c.Now+c.Way+3e6))
		}
		if len(s.places) > 0 {
			s.places = nil
			s.anew(c.at)
		}
	}
	if isFresh && (s.kind == "p" || s.kind == "w") && l.Clock > 0 && c.Now-l.Clock > 1e6 {
		c.remember(s, nil, true, c.Now-l.Clock)
	}
	if c.Run != "" {
		s.run = c.Run
	}
}

// anew begins the grace of the head of the queue at a moment.
func (s *State) anew(moment float64) { s.head, s.since = "", math.Ceil(moment) }

func (c *call) become(s *State, a, b float64) {
	if a == s.a && b == s.b {
		return
	}
	s.anew(c.at)
	if a > s.a && (s.kind == "p" || s.kind == "w") {
		s.last = nil
	}
	switch s.kind {
	case "p":
		if s.free+s.part < c.Now {
			permits := min((c.Now-s.free-s.part)/s.a, s.b, b)
			s.set(c.Now - permits*a)
		}
		if s.settles { // no earlier spending comes back to the other bucket
			s.lower(0)
		}
	case "w":
		full := s.stored / s.most()
		s.a, s.b = a, b
		s.stored = full * s.most()
	}
	s.a, s.b = a, b
}

func (c *call) giveBack(s *State, who string, keep float64) (size float64) {
	if s.kind == "s" {
		return 0
	}
	for k := len(s.last) - 1; k >= 0; k-- { // of one ask, the spendings of later windows come back first
		if a := &s.last[k]; a.of == who {
			stays := min(a.cost, keep)
			if a.cost > stays {
				c.unspend(s, a.cost-stays, a.due)
				size += a.cost - stays
			}
			a.cost, keep = stays, keep-stays
		}
	}
	if size > 0 {
		c.sooner(s)
		s.last = slices.DeleteFunc(s.last, func(a ask) bool { return a.cost == 0 })
	}
	return size
}
