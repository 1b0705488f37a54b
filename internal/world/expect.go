package world

import (
	"fmt"
	"time"
)

// expectation is a bound in a transcript. It applies to turns in a part of the time.
type expectation struct {
	from, until time.Duration // until 0: until the end
	limit       int
	planned     bool          // only turns of processes that exist from the beginning count
	permits     float64       // the least number of permits that are used
	most        float64       // the most permits that are used; 0: any number
	wait        time.Duration // no call waits longer; 0: any time
	follow      int           // the most calls that directly follow one that came later; below 0: any number
}

// turn is a call that was made.
type turn struct {
	*call
	at time.Duration
}

// meets judges a history by the bounds of its transcript.
func (w *world) meets() {
	for _, e := range w.plan.expects {
		permits, follow, longest := 0.0, 0, time.Duration(0)
		last := time.Duration(0)
		for _, t := range w.turns {
			cost := t.costs(e.limit)
			if t.at < e.from || e.until > 0 && t.at >= e.until || cost == 0 || e.planned && t.process.n >= len(w.plan.processes) {
				continue
			}
			if permits += cost; t.came < last {
				follow++
			}
			last, longest = t.came, max(longest, t.at-t.joined)
		}
		w.note("%v: %v permits, the longest wait %v, %d out of order", e, permits, longest, follow)
		if permits < e.permits || e.most > 0 && permits > e.most || e.wait > 0 && longest > e.wait || e.follow >= 0 && follow > e.follow {
			w.violate("expect", "%v: there are %v permits, the longest wait is %v, and %d calls are out of order", e, permits, longest, follow)
		}
	}
}

// costs returns the cost of a call at a limit.
func (c *call) costs(limit int) (cost float64) {
	for _, p := range c.parts {
		if p.limit == limit {
			cost += float64(p.cost)
		}
	}
	return cost
}

// String is an expectation's line of a transcript.
func (e expectation) String() string {
	text := "expect"
	add := func(name string, value any, is bool) {
		if is {
			text += fmt.Sprintf(" %s=%v", name, value)
		}
	}
	add("permits", e.permits, e.permits > 0)
	add("most", e.most, e.most > 0)
	add("limit", e.limit, e.limit > 0)
	add("planned", e.planned, e.planned)
	add("from", e.from, e.from > 0)
	add("until", e.until, e.until > 0)
	add("wait", e.wait, e.wait > 0)
	add("follow", e.follow, e.follow >= 0)
	return text
}
