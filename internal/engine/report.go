package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	forgotten = 10 * time.Minute       // without a call a key is told of no more
	asking    = 100 * time.Millisecond // a call that has been there for less may just be asking
	mostTold  = 50                     // keys and flows that a report tells of
)

// reports are what the process tells of itself, by the first key of a name.
func (e *Engine) reports(now time.Time) map[string]wire.Report {
	type usage struct {
		limit *wire.Limit
		last  time.Time
	}
	used, waiting := map[string][]usage{}, e.waitingCalls(now)
	for name, u := range e.names {
		maps.DeleteFunc(u.limits, func(_ *wire.Limit, last time.Time) bool { return now.Sub(last) >= forgotten })
		of := used[name.Keys[0]]
		for l, last := range u.limits {
			of = append(of, usage{l, last})
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

// waitingCalls are the calls that wait, by the first key of each name that they need.
func (e *Engine) waitingCalls(now time.Time) map[string][]wire.Waiting {
	type whose struct{ name, key, flow, heldBy string }
	found := map[whose]*wire.Waiting{}
	for _, l := range e.lines {
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
				w = &wire.Waiting{Key: of.key, Flow: of.flow, HeldBy: of.heldBy}
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

// firsts are the first ones in an order, as many as a report tells of.
func firsts[T any](all []T, order func(x, y T) int) []T {
	slices.SortFunc(all, order)
	return all[:min(len(all), mostTold)]
}
