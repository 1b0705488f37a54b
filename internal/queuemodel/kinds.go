package queuemodel

import (
	"math"
	"strconv"
	"strings"
)

// This file is plans of another kind.

// own is the newest plan, as replies have it.
func (s *State) own() string {
	return strings.ReplaceAll(strconv.FormatFloat(s.rank, 'f', 0, 64)+" "+s.form+" "+number(s.ownA)+" "+number(s.ownB), "  ", " ")
}

// Other returns the problem of a caller that has another kind than the newest plan; empty: it has none.
func (r *Redis) Other(j int, l Limit) string {
	if s := r.Limits[j]; s != nil && s.form != l.Form && l.Rank <= s.rank {
		return "PLAN " + s.own()
	}
	return ""
}

// convert begins a limit of another kind.
func (c *call) convert(s *State, l Limit) {
	used, till := 0.0, 0.0
	switch s.kind {
	case "q":
		for _, n := range s.window {
			used += n
		}
		if till = s.edges[1]; s.window[till] > 0 {
			till += s.edges[1] - s.edges[0]
		}
	case "r":
		for _, e := range s.log {
			if e.moment+s.offset+s.b > c.at {
				used += e.cost
			}
		}
		till = s.moment + s.offset + s.b
	default:
		till = s.free + s.part - s.held
		used = max(0, math.Ceil((till-c.at)/s.a+s.b*one(s.kind == "p")))
	}
	if s.keptTill > c.Now {
		used, till = used+s.kept, max(till, s.keptTill)
	}
	is := fresh(l, c)
	s.kind, s.form, s.a, s.b, s.ownA, s.ownB, s.rank, s.seen = l.Kind, l.Form, l.A, l.B, l.A, l.B, l.Rank, c.Now
	s.free, s.part, s.stored, s.window, s.records = is.free, is.part, is.stored, is.window, is.records
	s.log, s.used, s.moment, s.offset = nil, 0, 0, 0
	s.settles, s.lows, s.spendings = false, nil, 0
	s.kept, s.keptTill, s.held, s.setUntil, s.last = 0, 0, 0, 0, nil
	switch {
	case l.Kind == "p" || l.Kind == "w":
		if s.atLeast(c.Now + ahead); used > 0 && till > c.Now {
			s.kept, s.keptTill = used, math.Ceil(till)
		}
	case l.Kind == "q":
		for s.edges = l.Edges; c.at >= s.edges[1]; {
			s.edges = s.edges[1:]
		}
		s.window[s.edges[0]] = min(used, s.a)
	case used > 0:
		c.spend(s, min(used, s.a), c.at, "")
	}
	if l.Kind == "q" || l.Kind == "r" {
		s.paused = max(s.paused, c.Now+ahead)
	}
	s.anew(c.Now + ahead)
}
