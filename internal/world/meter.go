package world

import (
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// meter is a limit, or a key of one, with its provider and what the laws note of it.
type meter struct {
	provider
	part
	name     string
	plan     *limitPlan
	demanded bool    // a call waits that could be made but for the permits of this limit
	used     float64 // permits
	lost     []loss
}

// loss is permits that were lost while a call waited that could have been made.
type loss struct {
	from, to time.Duration
	permits  float64
}

// meterOf is that of a part of a call.
func (w *world) meterOf(p part) *meter {
	for _, m := range w.meters {
		if m.limit == p.limit && m.key == p.key {
			return m
		}
	}
	plan := &w.plan.limits[p.limit]
	m := &meter{part: p, plan: plan, name: plan.name}
	if p.key != "" {
		m.name += "/" + p.key
	}
	m.provider = newProvider(plan.limit, w.bears(plan.limit))
	m.wait(w.now)
	w.meters = append(w.meters, m)
	return m
}

func newProvider(l reserve.Limit, bears time.Duration) provider {
	return newPaced(1e6/l.Rate(), float64(l.MaxBurst()), bears)
}

// tolerance is by how much a call may be late beyond what its permits allow, as networks jitter.
const tolerance = 20 * time.Millisecond

// bears is by how much calls may be early against each other. A process does not know how long its way
// is before some replies: its first calls are late by that. Where replies come late, or trips change,
// any call may be late by the tolerance. A process that alone lost its way uses its share besides the
// whole rate of the others, if the policy is local.
func (w *world) bears(l reserve.Limit) time.Duration {
	bears := 2 * time.Millisecond
	for _, p := range w.plan.processes {
		bears = max(bears, p.trip/2+2*time.Millisecond)
	}
	if w.plan.has(replyLate, hold, far, freeze, requestLate) {
		bears += tolerance
	}
	if w.plan.policy == reserve.PolicyLocal {
		bears += time.Duration(w.besides(l) / l.Rate() * float64(time.Second))
	}
	return bears
}

// besides is how many permits processes use under the policy local while others have the whole rate.
// Where Redis is away for all, their shares need not agree on whose call is first.
func (w *world) besides(l reserve.Limit) (permits float64) {
	const probe = 750 * time.Millisecond // a default, at the latest
	n := len(w.plan.processes)
	share, burst := 0.9*l.Rate()/float64(n), float64(l.MaxBurst())
	for i := range w.plan.events {
		e := &w.plan.events[i]
		if e.what == far || slices.Contains(ofOperators, e.what) || e.lasts == 0 && e.what != failOver {
			continue
		}
		away := e.lasts + time.Second + 2*probe
		if e.by > 0 {
			away += e.by
		}
		if slices.Contains(ofTheServer, e.what) {
			away = time.Second
		}
		alone := 1
		if e.process == anybody {
			alone = n
		}
		permits += float64(alone) * (burst + share*away.Seconds())
	}
	return permits
}

// advance lets the meters count until now.
func (w *world) advance() {
	for _, m := range w.meters {
		if wasted := m.wait(w.now); wasted > 0 && m.demanded {
			m.lose(w.now, wasted)
		}
		m.demanded = false
	}
	if w.server.down || w.server.frozen || w.server.refuses != "" || w.server.db.full {
		return
	}
	for _, c := range w.calls {
		if c.state == waiting && c.ripe && !c.process.impaired() {
			w.demand(c)
		}
	}
}

// demand notes that a call waits: it could be made but for one of its limits.
func (w *world) demand(c *call) {
	lacks := 0
	var lacking *meter
	for _, p := range c.parts {
		if m := w.meterOf(p); !m.has(float64(p.cost)) {
			lacks++
			lacking = m
		}
	}
	switch {
	case lacks == 1:
		lacking.demanded = true
	case lacks == 0:
		for _, p := range c.parts {
			w.meterOf(p).demanded = true
		}
	}
}

// impaired reports whether a process can not reach the server, or not at once.
func (l *link) impaired() bool {
	if l.vanishes() {
		return true
	}
	for i := range l.events {
		if l.events[i].strikes(l.now, l.process, hold) {
			return true
		}
	}
	return false
}

// lose notes permits that are lost now. Losses that follow each other are one.
func (m *meter) lose(now time.Duration, permits float64) {
	if n := len(m.lost); n > 0 && now-m.lost[n-1].to < 100*time.Millisecond {
		m.lost[n-1].to = now
		m.lost[n-1].permits += permits
		return
	}
	m.lost = append(m.lost, loss{now, now, permits})
}

// judgeTurn lets the providers judge a call that is made now.
func (w *world) judgeTurn(c *call) {
	for _, p := range c.parts {
		m := w.meterOf(p)
		m.used += float64(p.cost)
		if err := m.take(float64(p.cost)); err != nil {
			w.violate("safe", "the provider of %s refuses call %d of process %d: %v", m.name, c.n, c.process.n, err)
		}
	}
}

// release tells the providers that a call is over.
func (w *world) release(c *call, used []int) {
	for i, p := range c.parts {
		if c.load.used > 0 || c.load.hold > 0 {
			w.meterOf(p).done(float64(p.cost), float64(used[i]))
		}
	}
}
