package world

import (
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/reserve"
)

// This file says what a limit is in a world: the provider that plays it, and how late or early calls may be at it.

func (w *world) newProvider(l reserve.Limit) provider {
	return providerOf(l, w.tolerated(l), w.began.Add(w.server.step))
}

// providerOf returns a provider of a limit. The clock is the time in its calendar at which the world began.
func providerOf(l reserve.Limit, tolerated time.Duration, clock time.Time) provider {
	n := float64(l.MaxBurst())
	switch l.Kind() {
	case reserve.KindQuota:
		begin, end := l.Window(clock)
		return newQuota(n, end.Sub(begin), clock.Sub(begin))
	case reserve.KindRolling:
		return newRolling(n, windowOf(l), tolerated+lateOf(l))
	case reserve.KindSlots:
		return newSlots(n)
	case reserve.KindWarmingUp:
		return newWarming(l.Rate(), warmUpOf(l), tolerated)
	}
	return newPaced(1e6/l.Rate(), n, tolerated)
}

// warmUpOf returns the period of a limit that warms up.
func warmUpOf(l reserve.Limit) time.Duration { return in(l, " warmup ") }

// marginOf returns the margin of a rolling limit.
func marginOf(l reserve.Limit) time.Duration { return in(l, " margin ") }

// lateOf returns for how long after its moment a turn of a rolling limit is usable.
func lateOf(l reserve.Limit) time.Duration { return max(0, marginOf(l)/2-engine.Tolerance) }

// windowOf returns the window of a rolling limit, with its margin.
func windowOf(l reserve.Limit) time.Duration {
	return time.Duration(float64(l.MaxBurst())/l.Rate()*float64(time.Second)).Round(time.Microsecond) + marginOf(l)
}

// rateOf returns how many permits a second a limit grants at most.
func rateOf(l reserve.Limit) float64 {
	if l.Kind() == reserve.KindRolling {
		return float64(l.MaxBurst()) / windowOf(l).Seconds()
	}
	return l.Rate()
}

// in returns the time that the text of a limit has behind a word.
func in(l reserve.Limit, word string) time.Duration {
	_, text, _ := strings.Cut(l.String(), word)
	text, _, _ = strings.Cut(text, " ")
	period, _ := time.ParseDuration(text)
	return period
}

// tolerance is how late a call may be beyond what its permits allow, because of network jitter.
const tolerance = 20 * time.Millisecond

// eachScript is how long Redis works on a request, while those of other processes wait.
const eachScript = 150 * time.Microsecond

// tolerated returns how early calls may be relative to each other. Before some replies a process does not
// know how long its trip is: its first calls are late by that time. If replies are late, or trips change,
// any call may be late by the tolerance. With the policy local, a process that cannot reach the server uses
// its share in addition to the full rate of the others.
func (w *world) tolerated(l reserve.Limit) time.Duration {
	tolerated := 2 * time.Millisecond
	for _, p := range w.plan.processes {
		tolerated = max(tolerated, p.trip/2+2*time.Millisecond)
	}
	if w.plan.has(replyLate, hold, far, freeze, requestLate, stop) {
		tolerated += tolerance
	}
	tolerated += time.Duration(len(w.plan.processes)) * eachScript
	if w.plan.isGroup() { // Redis works on many limits at once, and replies are delayed
		tolerated += tolerance
	}
	if slices.ContainsFunc(w.plan.limits, func(l limitPlan) bool { return l.lease > 0 }) {
		tolerated += tolerance // a turn that was taken ahead is used as late
	}
	if slices.ContainsFunc(w.plan.loads, func(l load) bool { return l.lapses > 0 || l.deadline > 0 || l.quits > 0 }) {
		tolerated += tolerance // a turn is used late, by its caller or, where that gave up, by the next one: see engine.Tolerance
	}
	if w.plan.policy == reserve.PolicyLocal {
		tolerated += time.Duration(w.besides(l) / w.slowestRate(l) * float64(time.Second))
	}
	return tolerated
}

// slowestRate returns the lowest rate that a limit has in the history.
func (w *world) slowestRate(l reserve.Limit) float64 {
	rate := l.Rate()
	for i := range w.plan.events {
		if e := &w.plan.events[i]; (e.what == set || e.what == replan) && w.plan.limits[e.limit].limit == l {
			rate = min(rate, w.limitOf(e.to).Rate())
		}
	}
	return rate
}

// besides returns how many permits processes use under the policy local while others have the full rate. If
// Redis is unreachable for all, processes may have different orders of calls.
func (w *world) besides(l reserve.Limit) (permits float64) {
	const probe, counted = 750 * time.Millisecond, 1500 * time.Millisecond // the longest default; by when all processes are counted
	n := len(w.plan.processes)
	share, burst := 0.9*l.Rate()/float64(n), float64(l.MaxBurst())
	for i := range w.plan.events {
		e := &w.plan.events[i]
		if slices.Contains(ofOperators, e.what) || e.lasts == 0 && e.what != failOver {
			continue
		}
		away := e.lasts + time.Second + 2*probe
		if e.by > 0 {
			away += e.by
		}
		if slices.Contains(ofTheServer, e.what) {
			away = time.Second
		}
		alone := 0
		for k, p := range w.plan.processes {
			if (e.process == anybody || e.process == k) && (e.what != far || e.by >= p.timeout) { // else it reaches Redis in time
				alone++
			}
		}
		permits += float64(alone) * (burst + share*away.Seconds())
		if alone == n && e.at < counted { // more than nine processes that do not know how many they are
			permits += max(0, 0.1*float64(n)-0.9) * l.Rate() * (e.ends() - e.at + away).Seconds()
		}
	}
	return permits
}
