package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/meter"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// What has happened? See Event.
type What int

// The events of an engine. Counts and logs are made of them.
const (
	Asked       What = iota // A batch has its answer: N calls asked, and Took is its round trip.
	Lapsed                  // A turn had expired when its call came to use it.
	Voided                  // Turns were revoked, by a pause for example. Their calls ask again.
	BatchFailed             // Redis has not answered.
	WentAway                // Redis counts as unreachable. Never: it was never reached.
	CameBack                // Redis answers again, after Took.
	Outlasted               // Redis is back: in an outage of length Took, N permits of Limit were used.
	Moved                   // Another process has moved Limit: Text is paused, resumed or limit.
	Unfit                   // The limit Text, of another kind, is in force under Limit's name: calls of this process fail. N: processes of protocol N use it.
	Mixed                   // Processes of an earlier protocol have come, or are gone: the lowest protocol of the living processes is N.
	Follows                 // Another process has brought a newer plan of Limit, and this process has it now.
	Planning                // Calls wait at Limits, whose plans may have changed: see Engine.Planned.
	Rules                   // The limit Text is in force under Limit's name, whether that is this process's limit or not.
)

// Event is something that has happened.
type Event struct {
	What   What
	N      int
	Took   time.Duration
	Need   *Need // The need of the calls. Nil: they belong to several lines.
	Limit  *wire.Limit
	Text   string
	Limits []*wire.Limit
	Err    error
	Never  bool
}

func (e *Engine) tell(event Event) { e.ready.Tell = append(e.ready.Tell, event) }

// count adds the event to the counts of its limits.
func (e *Event) count() {
	switch e.What {
	case Asked:
		meter.Asked(e.N, e.Took, e.Err)
	case Lapsed:
		e.Need.each(func(p Part) { p.Limit.Name.Meter.Add(meter.Lapsed, int64(e.N)) })
	case Voided:
		e.Need.each(func(p Part) { p.Limit.Name.Meter.Add(meter.Voided, int64(e.N)) })
	}
}

// used counts a call of the need that uses a turn.
func (n *Need) used(t *Turn) {
	n.Part.used(t)
	for _, p := range n.More {
		p.used(t)
	}
}

func (p Part) used(t *Turn) {
	p.Limit.Calls.Add(1)
	m := p.Limit.Name.Meter
	if p.Cost > 1 { // concurrent additions are what counting costs
		p.Limit.Further.Add(p.Cost - 1)
		m.Add(meter.Further, p.Cost-1)
	}
	result := meter.AtOnce
	if t.Waited > 0 {
		result = meter.Waited
		m.InQueue(result, t.Waited, t.Used.Sub(t.Due))
	}
	m.Ended(result, 1)
	if t.Process == "" {
		m.Add(meter.Alone, 1)
	}
}

// Ended counts a call of the need that ended without a turn, after a time in the queue.
func (n *Need) Ended(r meter.Result, waited time.Duration) {
	n.each(func(p Part) {
		p.Limit.Name.Meter.Ended(r, 1)
		if waited > 0 {
			p.Limit.Name.Meter.InQueue(r, waited, 0)
		}
	})
}

// Unused counts a turn of the need that was counted as used, and was not.
func (n *Need) Unused() {
	n.each(func(p Part) { p.Limit.Name.Meter.Add(meter.Unused, 1) })
}

// Standing adds the state of each limit to the Standing that of returns for it, and reports whether Redis is
// unreachable.
func (e *Engine) Standing(of func(*meter.Limit) *meter.Standing) (away bool) {
	stands := func(l *wire.Limit) *meter.Standing {
		if l.Name.Meter == nil {
			return &meter.Standing{}
		}
		return of(l.Name.Meter)
	}
	for name := range e.names {
		if name.Meter != nil {
			of(name.Meter)
		}
	}
	for _, l := range e.inUse {
		for _, p := range l.parts {
			stands(p.Limit).Waiting += int64(l.calls())
		}
	}
	for c := range e.holders {
		c.Need.each(func(p Part) {
			if p.Limit.HasSlots() {
				stands(p.Limit).Slots += p.Cost
			}
		})
	}
	return e.outage != nil
}

const (
	forgotten = 10 * time.Minute       // a report leaves out a key that had no call for this long
	asking    = 100 * time.Millisecond // a call that has waited for less may only be asking
	mostTold  = 50                     // keys and flows that a report has
)

// reports returns what the process reports of itself, by the first key of each name.
func (e *Engine) reports(now time.Time) map[string]wire.Report {
	type usage struct {
		limit *wire.Limit
		last  time.Time
	}
	used, waiting := map[string][]usage{}, e.waitingCalls(now)
	for name, u := range e.names {
		of := used[name.Keys[0]]
		for l, last := range u.limits.all {
			if now.Sub(last) < forgotten {
				of = append(of, usage{l, last})
			}
		}
		used[name.Keys[0]] = of
	}
	reports := map[string]wire.Report{}
	for key, of := range used {
		report := e.cfg.Self
		report.Waiting = waiting[key]
		for _, u := range firsts(of, func(x, y usage) int { return cmp.Or(y.last.Compare(x.last), cmp.Compare(x.limit.Key, y.limit.Key)) }) {
			report.Used = append(report.Used, wire.Usage{Key: u.limit.Key, Calls: u.limit.Calls.Load(), Permits: u.limit.Calls.Load() + u.limit.Further.Load()})
		}
		reports[key] = report
	}
	return reports
}

// waitingCalls returns the calls that wait, by the first key of each name that they need.
func (e *Engine) waitingCalls(now time.Time) map[string][]wire.Waiting {
	type whose struct{ name, key, flow, heldBy string }
	found := map[whose]*wire.Waiting{}
	for _, l := range e.inUse {
		if len(l.waiting) == 0 || now.Sub(l.oldest()) < asking {
			continue
		}
		seen := map[string]bool{}
		for i, p := range l.parts {
			of := whose{p.Limit.Name.Keys[0], p.Limit.Key, l.need.Flow.Name, ""}
			if seen[of.name] {
				continue
			}
			seen[of.name] = true
			if len(l.places) > 0 && l.places[0].limit >= 0 && l.places[0].limit < len(l.parts) && l.places[0].limit != i {
				of.heldBy = l.parts[l.places[0].limit].Limit.String()
			}
			w := found[of]
			if w == nil {
				w = &wire.Waiting{Key: of.key, Flow: of.flow, Weight: l.need.Flow.Weight, HeldBy: of.heldBy}
				found[of] = w
			}
			w.Calls += len(l.waiting)
			w.Oldest = max(w.Oldest, now.Sub(l.oldest()).Round(time.Millisecond).Seconds())
		}
	}
	all := map[string][]wire.Waiting{}
	for of, w := range found {
		all[of.name] = append(all[of.name], *w)
	}
	for name, of := range all {
		all[name] = firsts(of, func(x, y wire.Waiting) int {
			return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Key, y.Key), cmp.Compare(x.Flow, y.Flow), cmp.Compare(x.HeldBy, y.HeldBy))
		})
	}
	return all
}

// firsts returns the first elements in an order, as many as a report has.
func firsts[T any](all []T, order func(x, y T) int) []T {
	slices.SortFunc(all, order)
	return all[:min(len(all), mostTold)]
}
