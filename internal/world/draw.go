package world

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// draw draws a history. It first draws which features the history may have. So a history with few features
// is as likely as one with many, and each pair of features also occurs alone.
func draw(seed uint64) *plan {
	p := &plan{seed: seed}
	d := &drawer{p.source("draw", 0), p}
	p.policy = pick(d, reserve.PolicyWait, reserve.PolicyWait, reserve.PolicyLocal, reserve.PolicyFail)
	if d.source("open", 0).Float64() < 0.08 {
		p.policy = reserve.PolicyOpen
	}
	d.drawLimits()
	d.drawProcesses()
	d.drawLoads()
	p.until = max(p.until, 3*time.Second)
	d.drawEvents()
	d.drawStop()
	d.drawJoints()
	p.until = max(p.until, p.calm()+2*time.Second)
	return p
}

type drawer struct {
	*rand.Rand
	*plan
}

func pick[T any](d *drawer, all ...T) T { return all[d.IntN(len(all))] }

// chance is true with a probability.
func (d *drawer) chance(p float64) bool { return d.Float64() < p }

// between draws a number, each order of magnitude as likely as the others.
func (d *drawer) between(least, most float64) float64 {
	return math.Exp(math.Log(least) + d.Float64()*math.Log(most/least))
}

func (d *drawer) duration(least, most time.Duration) time.Duration {
	return time.Duration(d.between(float64(least), float64(most))).Round(100 * time.Microsecond)
}

// moment draws a moment at which processes have begun and calls are made.
func (d *drawer) moment() time.Duration {
	return d.duration(500*time.Millisecond, 3*time.Second)
}

// round cuts a number to two digits, for readers.
func round(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Round(math.Round(x/unit)*unit*1e6) / 1e6
}

// drawLimits draws one limit, or several that calls need together.
func (d *drawer) drawLimits() {
	n := pick(d, 1, 1, 1, 2, 3)
	kinds := pick(d, 1, 1, 5)
	if d.chance(0.03) {
		d.drawGroup()
		return
	}
	for i := range n {
		kind := reserve.KindPaced
		if kinds > 1 {
			kind = reserve.Kind(d.IntN(kinds))
		}
		l := limitPlan{name: string(rune('a' + i)), limit: d.limitOf(kind)}
		if random := d.source("margin", i); kind == reserve.KindRolling && random.IntN(3) == 0 {
			l.limit = l.limit.Margin(time.Duration(random.Float64() * float64(windowOf(l.limit)) / 4).Truncate(time.Millisecond))
		}
		l.settles = kind == reserve.KindPaced && d.chance(0.1)
		if kind == reserve.KindPaced && !l.settles && d.chance(0.5) {
			l.lease = d.duration(20*time.Millisecond, time.Second)
		}
		if kind == reserve.KindQuota && d.clock == 0 { // the next minute begins soon
			d.clock = time.Minute - d.duration(time.Second, 10*time.Second)
		}
		d.limits = append(d.limits, l)
	}
}

// drawGroup draws hundreds of equal limits under different names. Each call needs one of them.
func (d *drawer) drawGroup() {
	limit := reserve.PerSecond(round(d.between(0.2, 5)))
	if d.chance(0.5) {
		limit = reserve.Concurrent(1 + d.IntN(2))
	}
	for i := range 50 + d.IntN(250) {
		d.limits = append(d.limits, limitPlan{name: fmt.Sprintf("n%d", i), limit: limit})
	}
}

func (d *drawer) limitOf(kind reserve.Kind) reserve.Limit {
	switch kind {
	case reserve.KindQuota:
		return reserve.Quota(1+d.IntN(200), reserve.CalendarMinute)
	case reserve.KindRolling:
		window := d.duration(200*time.Millisecond, 5*time.Second).Round(10 * time.Millisecond)
		return reserve.Rolling(1+int(d.between(1, 200)), window)
	case reserve.KindSlots:
		return reserve.Concurrent(1 + int(d.between(1, 30)))
	}
	rate := round(d.between(5, 1000))
	if d.chance(0.05) {
		rate = round(d.between(1000, 1e5))
	}
	if kind == reserve.KindWarmingUp {
		return reserve.PerSecond(rate).WarmUp(d.duration(10*time.Millisecond, 2*time.Second).Round(time.Millisecond))
	}
	return reserve.PerSecond(rate).Burst(pick(d, 1, 1, 1+d.IntN(5), 1+d.IntN(50)))
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
		d.processes = append(d.processes, processPlan{trip: trip, timeout: max(d.duration(200*time.Millisecond, time.Second), 3*trip)})
	}
	d.drawVersions()
}

// drawVersions makes some fleets mixed: processes of an earlier version, and of the current or the next one.
func (d *drawer) drawVersions() {
	d = &drawer{d.source("version", 0), d.plan}
	if !d.chance(0.25) {
		return
	}
	newer := pick(d, "", "", later)
	for i := range d.processes {
		d.processes[i].version = pick(d, earlier, newer)
	}
}

// most is the most turns that a history may have, so that it is played in a short time.
const most = 1500

// drawLoads draws callers: together they need more than the limit, or less.
func (d *drawer) drawLoads() {
	rate := math.Inf(1)
	for i := range d.limits {
		rate = min(rate, d.pace(i))
	}
	if d.isGroup() {
		rate *= float64(len(d.limits)) / 4 // some of them are busy
	}
	d.until = min(time.Duration(most/rate*float64(time.Second)), 10*time.Second).Round(time.Millisecond)
	flows := d.chance(0.15)
	for i := range pick(d, 1, 1, 2, 3) {
		l := load{process: anybody, parts: d.parts()}
		if d.holds(&l) || d.chance(0.1) {
			l.lasts = d.duration(time.Millisecond, 200*time.Millisecond)
		}
		for _, p := range l.parts {
			if d.limit(p).settles && d.chance(0.7) && !d.holds(&l) {
				l.used, l.lasts = math.Round(100*d.Float64())/100, d.duration(time.Millisecond, time.Second)
			}
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
		case 3: // one process has callers of its own
			l.process = d.IntN(len(d.processes))
			l.callers = 1 + d.IntN(40)
		}
		if d.chance(0.2) {
			l.quits, l.patience = math.Round(5+40*d.Float64())/100, d.duration(time.Millisecond, 2*time.Second)
		}
		if d.chance(0.2) {
			l.deadline, l.retry = d.duration(100*time.Millisecond, 5*time.Second), d.duration(50*time.Millisecond, time.Second)
		}
		if d.chance(0.1) && l.used == 0 {
			l.books, l.returns = math.Round(10*d.Float64())/10, pick(d, 0, 0.5, 1)
		}
		if flows {
			l.flow, l.weight = string(rune('x'+i)), pick(d, 0, 0, 0.5, 3)
			l.urgent = d.chance(0.1)
		}
		d.drawVerb(&l, i)
		d.loads = append(d.loads, l)
	}
}

// drawVerb draws how calls wait.
func (d *drawer) drawVerb(l *load, n int) {
	d = &drawer{d.source("verb", n), d.plan}
	switch d.IntN(20) {
	case 0:
		l.now = l.books == 0
	case 1:
		l.lapses = d.duration(100*time.Millisecond, 1500*time.Millisecond)
	}
	if l.books > 0 && d.chance(0.5) {
		l.stays = d.duration(100*time.Millisecond, 5*time.Second)
	}
}

// isGroup reports whether calls need one of hundreds of limits.
func (p *plan) isGroup() bool { return len(p.limits) > 5 }

// pace returns about how many calls a limit lets through in a second.
func (d *drawer) pace(limit int) float64 {
	l := d.limits[limit].limit
	switch l.Kind() {
	case reserve.KindQuota:
		return l.Rate() * 20
	case reserve.KindSlots:
		return l.Rate() * 10
	}
	return rateOf(l)
}

// parts draws what calls need: all limits, or some of them.
func (d *drawer) parts() (parts []part) {
	if d.isGroup() {
		return []part{{limit: anyLimit, cost: 1}}
	}
	for i := range d.limits {
		if len(d.limits) > 1 && d.chance(0.3) && len(parts)+len(d.limits)-i > 1 {
			continue
		}
		p := part{limit: i, cost: 1}
		if burst := d.limits[i].limit.MaxBurst(); burst > 1 && d.chance(0.2) {
			p.cost = 1 + d.IntN(burst)
		}
		if len(d.limits) == 1 && d.chance(0.1) {
			p.key = pick(d, "k1", "k2")
		}
		parts = append(parts, p)
	}
	return parts
}

func (d *drawer) drawEvents() {
	families := d.IntN(64) & d.IntN(64) // bits
	for i, draw := range []func(){d.drawMessages, d.drawWay, d.drawServer, d.drawMoment, d.drawProcessEvents, d.drawOperator} {
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

func (d *drawer) drawMoment() {
	e := event{at: d.moment(), what: pick(d, ofMoments[:5]...), process: anybody}
	switch e.what {
	case clockStep: // processes cannot distinguish less than two seconds from a delay
		e.by = d.duration(2*time.Second, 10*time.Minute) * time.Duration(1-2*d.IntN(2))
	case forget:
		if e.limit = d.IntN(len(d.limits)); d.source("queue", 0).Float64() < 0.3 {
			e.what = forgetQueue
		}
	}
	d.events = append(d.events, e)
}

func (d *drawer) drawOperator() {
	e := event{at: d.moment(), what: pick(d, pause, resume, set, reset), process: anybody, limit: d.IntN(len(d.limits))}
	if d.chance(0.5) {
		e.lasts = d.duration(100*time.Millisecond, 3*time.Second)
	}
	switch e.what {
	case pause:
		e.by = d.duration(5*time.Millisecond, time.Second)
	case set:
		e.to = d.another(d.limits[e.limit].limit).String()
	default:
		e.lasts = 0
	}
	d.events = append(d.events, e)
}

// joints is the first seed of histories whose events may meet. The gate plays seeds below it.
const joints = 1000

// drawJoints lets events begin about when others begin or end, and the minute of a quota end then.
func (d *drawer) drawJoints() {
	d = &drawer{d.source("joints", 0), d.plan}
	if d.seed < joints || len(d.events) == 0 || !d.chance(0.3) {
		return
	}
	if d.chance(0.3) {
		d.policy = pick(d, reserve.PolicyOpen, reserve.PolicyLocal)
	}
	meet := func() time.Duration {
		e := d.events[d.IntN(len(d.events))]
		about := time.Duration((d.Float64() - 0.5) * float64(200*time.Millisecond))
		return max(500*time.Millisecond, e.at+pick(d, 0, e.lasts)+about).Round(100 * time.Microsecond)
	}
	for i := range d.events[1:] {
		d.events[i+1].at = meet()
	}
	if d.clock > 0 {
		d.clock = time.Minute - meet()
	}
}

// another draws a limit of the same kind that allows more, or less.
func (d *drawer) another(l reserve.Limit) reserve.Limit {
	by := d.between(0.4, 2.5)
	n := max(1, int(float64(l.MaxBurst())*by))
	switch l.Kind() {
	case reserve.KindQuota:
		return reserve.Quota(n, reserve.CalendarMinute)
	case reserve.KindRolling:
		return reserve.Rolling(n, (windowOf(l) - marginOf(l)).Round(10*time.Millisecond)).Margin(marginOf(l))
	case reserve.KindSlots:
		return reserve.Concurrent(n)
	case reserve.KindWarmingUp:
		return reserve.PerSecond(round(l.Rate() * by)).WarmUp(warmUpOf(l))
	}
	return reserve.PerSecond(round(l.Rate() * by)).Burst(l.MaxBurst())
}

func (d *drawer) drawProcessEvents() {
	e := event{at: d.moment(), what: pick(d, ofProcesses...), process: d.IntN(len(d.processes))}
	switch e.what {
	case crashes:
		e.lasts, e.by = d.duration(300*time.Millisecond, 3*time.Second), d.duration(50*time.Millisecond, time.Second)
	case stop:
		e.lasts = d.duration(20*time.Millisecond, 8*time.Second)
	case other:
		if d.isGroup() || d.has(restart, failOver, flush) { // then the process may be the first to return
			e.what = start
			break
		}
		e.limit = d.IntN(len(d.limits))
		kind := d.limits[e.limit].limit.Kind()
		for e.to == "" || kind == d.limits[e.limit].limit.Kind() {
			kind = reserve.Kind(d.IntN(5))
			e.to = d.limitOf(kind).String()
		}
	}
	d.events = append(d.events, e)
}
