package world

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// draw draws a history. Which features it may have is drawn first, so that one with few of them is as
// likely as one with many, and each meets each other one alone.
func draw(seed uint64) *plan {
	p := &plan{seed: seed}
	d := &drawer{p.source("draw", 0), p}
	p.policy = pick(d, reserve.PolicyWait, reserve.PolicyWait, reserve.PolicyLocal, reserve.PolicyFail)
	d.drawLimits()
	d.drawProcesses()
	d.drawLoads()
	p.until = max(p.until, 3*time.Second)
	d.drawEvents()
	p.until = max(p.until, p.calm()+2*time.Second)
	return p
}

type drawer struct {
	*rand.Rand
	*plan
}

func pick[T any](d *drawer, all ...T) T { return all[d.IntN(len(all))] }

// chance reports whether something of a probability is so.
func (d *drawer) chance(p float64) bool { return d.Float64() < p }

// between draws a number, each order of magnitude as likely as the others.
func (d *drawer) between(least, most float64) float64 {
	return math.Exp(math.Log(least) + d.Float64()*math.Log(most/least))
}

func (d *drawer) duration(least, most time.Duration) time.Duration {
	return time.Duration(d.between(float64(least), float64(most))).Round(100 * time.Microsecond)
}

// moment draws one while calls are made, once processes have begun.
func (d *drawer) moment() time.Duration {
	return d.duration(500*time.Millisecond, 3*time.Second)
}

// round cuts a number to two digits, for who reads it.
func round(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Round(math.Round(x/unit)*unit*1e6) / 1e6
}

func (d *drawer) drawLimits() {
	rate := round(d.between(5, 1000))
	if d.chance(0.05) {
		rate = round(d.between(1000, 1e5))
	}
	limit := reserve.PerSecond(rate).Burst(pick(d, 1, 1, 1+d.IntN(5), 1+d.IntN(50)))
	d.limits = append(d.limits, limitPlan{name: "api", limit: limit})
}

func (d *drawer) drawProcesses() {
	n := 1 + d.IntN(5)
	if d.chance(0.1) {
		n = 6 + d.IntN(5)
	}
	if d.chance(0.02) {
		n = 30
	}
	trip := d.duration(200*time.Microsecond, 50*time.Millisecond)
	apart := d.chance(0.3)
	for range n {
		if apart {
			trip = d.duration(200*time.Microsecond, 300*time.Millisecond)
		}
		d.processes = append(d.processes, processPlan{trip, max(d.duration(200*time.Millisecond, time.Second), 3*trip)})
	}
}

// most is how many turns a history may have, so that it does not take too long to play.
const most = 1500

// drawLoads draws callers: together they need more than the limit, or less.
func (d *drawer) drawLoads() {
	limit := &d.limits[0]
	rate, burst := limit.limit.Rate(), limit.limit.MaxBurst()
	d.until = min(time.Duration(most/rate*float64(time.Second)), 10*time.Second)
	kinds := 1 + d.IntN(2)
	for range kinds {
		l := load{process: anybody, parts: []part{{limit: 0, cost: 1}}}
		if burst > 1 && d.chance(0.4) {
			l.parts[0].cost = 1 + d.IntN(burst)
		}
		switch d.IntN(4) {
		case 0: // always busy
			l.callers = 1 + d.IntN(60)
		case 1: // steady
			l.callers = 1 + d.IntN(30)
			l.think = time.Duration(float64(l.callers) / (rate * pick(d, 0.3, 0.8, 1.5)) * float64(time.Second)).Round(100 * time.Microsecond)
		case 2: // a backlog
			l.callers, l.calls = 1+min(200, int(rate*2)), 1
			l.begin = d.moment() / 2
		case 3: // each process has callers of its own
			l.process = d.IntN(len(d.processes))
			l.callers = 1 + d.IntN(40)
		}
		if d.chance(0.2) {
			l.quits, l.patience = 0.05+0.4*d.Float64(), d.duration(time.Millisecond, 2*time.Second)
		}
		if d.chance(0.2) {
			l.deadline, l.retry = d.duration(10*time.Millisecond, 5*time.Second), d.duration(20*time.Millisecond, time.Second)
		}
		d.loads = append(d.loads, l)
	}
}

func (d *drawer) drawEvents() {
	families := d.IntN(16) // bits
	for i, draw := range []func(){d.drawMessages, d.drawWay, d.drawServer, d.drawProcessEvents} {
		if families&(1<<i) != 0 {
			for range 1 + d.IntN(2) {
				draw()
			}
		}
	}
}

func (d *drawer) whom() int { return pick(d, anybody, d.IntN(len(d.processes))) }

func (d *drawer) drawMessages() {
	d.events = append(d.events, event{
		at: d.moment(), lasts: d.duration(50*time.Millisecond, 2*time.Second), what: pick(d, ofMessages...), process: d.whom(),
		chance: math.Round((0.02+0.5*d.Float64()*d.Float64())*100) / 100, by: d.duration(10*time.Millisecond, 2*time.Second),
	})
}

func (d *drawer) drawWay() {
	d.events = append(d.events, event{
		at: d.moment(), lasts: d.duration(20*time.Millisecond, 3*time.Second), what: pick(d, ofTheWay...), process: d.whom(),
		by: d.duration(time.Millisecond, 300*time.Millisecond),
	})
}

func (d *drawer) drawServer() {
	e := event{at: d.moment(), lasts: d.duration(20*time.Millisecond, 3*time.Second), what: pick(d, ofTheServer...), process: anybody}
	switch e.what {
	case failOver:
		e.by = d.duration(time.Millisecond, 3*time.Second)
	case refuse:
		e.to = pick(d, refusals...)
	}
	d.events = append(d.events, e)
}

// drawProcessEvents draws no crashes, and no kill where calls cost more than one permit: a known fault,
// the head of a queue that sleeps on, lets a fleet stand still then for longer than it may.
func (d *drawer) drawProcessEvents() {
	e := event{at: d.moment(), what: pick(d, kill, start), process: d.IntN(len(d.processes))}
	if slices.ContainsFunc(d.loads, func(l load) bool { return l.parts[0].cost > 1 }) {
		e.what = start
	}
	if e.what == crashes {
		e.lasts, e.by = d.duration(300*time.Millisecond, 3*time.Second), d.duration(50*time.Millisecond, time.Second)
	}
	d.events = append(d.events, e)
}
