package world

import (
	"fmt"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// This file judges calls of real processes by the providers of simulated worlds.

// InForce is a limit, and the moment from which on it is in force.
type InForce struct {
	At    time.Duration
	Limit reserve.Limit
}

// referee is the provider behind a key whose plan changes. Its moments count from when the world began.
type referee struct {
	provider
	began time.Time
	now   time.Duration
	limit reserve.Limit
	kept  float64 // permits that were used of a window …
	till  time.Duration
	from  time.Duration // from when on what is not used is lost
	lost  time.Duration
}

// Judge plays calls of one permit against a strict provider that follows the limits in force, and has all permits of the
// first one when that begins. It returns which calls the provider refuses, and which part of it was used between two
// moments, if calls waited all that time. The moments count from began, by Redis's clock.
func Judge(began time.Time, limits []InForce, calls []time.Duration, from, until time.Duration) (refused []error, used float64) {
	r, idle := &referee{began: began, limit: limits[0].Limit, from: from}, time.Duration(0)
	r.now = limits[0].At
	r.provider = r.of(limits[0].Limit, r.now)
	limits = limits[1:]
	for i, at := range append(slices.Clone(calls), until) {
		for len(limits) > 0 && limits[0].At <= at {
			r.until(limits[0].At)
			if r.follow(limits[0], calls[i:]) {
				idle += min(ahead, until-limits[0].At)
			}
			limits = limits[1:]
		}
		r.until(at)
		if i == len(calls) {
			break
		}
		if err := r.take(1); err != nil {
			refused = append(refused, fmt.Errorf("at %v, under %v: %w", at, r.limit, err))
		}
	}
	return refused, 1 - r.lost.Seconds()/(until-from-idle).Seconds()
}

// of returns a provider of a limit that begins with all permits.
func (r *referee) of(l reserve.Limit, at time.Duration) provider {
	p := providerOf(l, time.Millisecond, r.began)
	_ = p.wait(at, 1)
	return p
}

// until lets time pass, in steps: what is free at the end of one counts for all of it.
func (r *referee) until(at time.Duration) {
	for r.now < at {
		r.now = min(at, r.now+5*time.Millisecond)
		if t, is := r.provider.(*turned); is && t.at <= r.now {
			_ = t.next.wait(t.at, 1)
		}
		r.provider = turnedBy(r.provider, r.now)
		if lost := r.wait(r.now, 1); r.now > r.from {
			r.lost += lost
		}
	}
}

// follow goes over to another limit. It reports whether that is of another kind: then no turn is due for a second, and
// what was used before counts.
func (r *referee) follow(f InForce, later []time.Duration) bool {
	was := r.limit
	r.limit = f.Limit
	if f.Limit.Kind() == was.Kind() {
		t := termsOf(f.Limit)
		r.change(t.A, t.B)
		return false
	}
	used, till := r.used(f.At)
	for _, at := range later { // granted turns are used
		if at < f.At+ahead {
			used++
		}
	}
	if till > 0 {
		r.kept, r.till = used, till
	} else if r.till > f.At {
		used += r.kept
	}
	next := r.of(f.Limit, f.At)
	switch n := next.(type) {
	case *paced:
		_ = n.wait(f.At+ahead, 1)
		n.stored, n.changes[0].stored = 0, 0
	case *warming:
		n.ready = f.At + ahead
	case *quota:
		n.used = min(used, n.changes[0].permits)
	case *rolling:
		n.log = append(n.log, spent{f.At, min(used, n.changes[0].permits)})
	}
	r.provider = &turned{r.provider, next, f.At + ahead}
	return true
}

// used returns how many permits count under a limit of another kind, and until when its window counts if it has one.
func (r *referee) used(now time.Duration) (used float64, till time.Duration) {
	switch p := r.provider.(type) {
	case *paced:
		last := p.changes[len(p.changes)-1]
		return last.burst - last.stored, 0
	case *warming:
		return max(0, p.ready-now).Seconds() * p.rate, 0
	case *quota:
		return p.used, now + p.window - (now+p.began)%p.window
	case *rolling:
		return p.used(p.window), now + p.window
	}
	return 0, 0
}
