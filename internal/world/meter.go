package world

import (
	"math"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// meter is a limit, or a key of one, with its provider and what the laws note about it.
type meter struct {
	provider
	part
	name      string
	plan      *limitPlan
	demanded  float64 // the highest cost of a call that could be made but for this limit; 0: no call waits
	blocked   bool    // it holds back a call that came earlier
	used      float64 // permits in all
	parted    float64 // the parts of permits that calls of slower limits leave unused: see partedBy
	givenUp   float64 // permits of calls that gave up after their turns were granted
	lapsed    float64 // permits of turns that expired before their callers came
	gone      float64 // permits of turns of processes that were killed or suspended before they used them
	largest   float64 // permits of the largest of these turns, of each such process
	overspent float64 // permits beyond the limit that processes spent which remember nothing of it: see foundFull
	lost      []loss
	lastAt    time.Duration // the moment of the last call, and its cost
	lastCost  float64

	pauses  []paused
	stops   []paused                   // hard stops: until they end, unless they are renewed
	probes  string                     // the reason of the hard stop, which says when a call may probe it …
	probed  time.Duration              // … when it was last stopped or probed …
	known   time.Duration              // … and the end that the provider has named; 0: none
	sets    []setting                  // the limits that were set
	text    string                     // the limit in force, if it has plans …
	form    string                     // … and what a limit of another kind than the keys has before its numbers
	anew    bool                       // its state may have been lost since a script wrote it
	users   map[*process]time.Duration // since when processes need it
	replies map[*process]time.Duration // when the first reply about it comes at the latest, if none is lost
}

// paused is a pause from a moment until another one.
type paused struct{ from, until time.Duration }

// setting is a limit that was set.
type setting struct {
	at   time.Duration
	a, b float64
}

// olderSets notes that the limit that was set before a moment is in force, as a later one was lost with the
// data. This applies to one limit, or to all limits.
func (w *world) olderSets(limit int, than time.Duration) {
	for _, m := range w.meters {
		if limit != anyLimit && m.limit != limit {
			continue
		}
		if m.anew = m.anew || limit == anyLimit || m.part.key == ""; len(m.sets) == 0 || m.text != "" {
			continue
		}
		own := termsOf(m.plan.limit)
		was := setting{a: own.A, b: own.B}
		for _, s := range m.sets {
			if s.at <= than {
				was = s
			}
		}
		m.change(was.a, was.b)
	}
}

// loss is a loss while a call waited that could have been made. It is the time in which the limit allows
// the lost permits.
type loss struct {
	to   time.Duration
	lost time.Duration
}

// meterOf returns the meter of a part of a call.
func (w *world) meterOf(p part) *meter {
	p.limit, p.cost = max(0, p.limit), 0
	if m := w.byPart[p]; m != nil {
		return m
	}
	plan := &w.plan.limits[p.limit]
	m := &meter{part: p, plan: plan, name: plan.name, users: map[*process]time.Duration{}, replies: map[*process]time.Duration{}}
	if p.key != "" {
		m.name += "/" + p.key
	}
	m.provider = w.newProvider(plan.limit)
	m.wait(w.now, 1)
	w.meters = append(w.meters, m)
	w.byPart[p] = m
	w.byState[w.plan.keys(p.limit, p.key)[0]] = m
	return m
}

// metersOf returns the meters of the parts of a call.
func (w *world) metersOf(c *call) []*meter {
	for len(c.meters) < len(c.parts) {
		c.meters = append(c.meters, w.meterOf(c.parts[len(c.meters)]))
	}
	return c.meters
}

// advance makes the meters count until now.
func (w *world) advance() {
	for _, m := range w.meters {
		m.provider = turnedBy(m.provider, w.now)
		if lost := m.wait(w.now, max(m.demanded, 1)); lost > 0 && m.demanded > 0 {
			m.lose(w.now, lost)
		}
	}
	w.demands()
}

// demands updates for which limits calls wait from now on.
func (w *world) demands() {
	for _, m := range w.meters {
		m.demanded, m.blocked = 0, false
	}
	if w.opens() || w.server.down || w.server.frozen || w.server.refuses != "" || w.server.Full {
		return
	}
	alone := len(w.plan.limits) == 1
	for _, c := range w.waiting {
		if c.ripe && !c.process.strange && !c.process.impaired() && (alone || w.allPaced(c)) {
			w.demand(c)
		}
	}
}

// demand notes that a call waits: it could be made but for one of its limits. A limit that holds back an
// earlier call holds back this one, too.
func (w *world) demand(c *call) {
	var all [8]*meter
	lacking := all[:0]
	for i, m := range w.metersOf(c) {
		if m.blocked || !m.has(float64(c.parts[i].cost)) || len(c.parts) > 1 && m.isPacing() {
			lacking = append(lacking, m)
		}
	}
	for _, m := range lacking {
		m.blocked = true
	}
	if len(lacking) > 0 {
		c.could = w.now
	}
	if len(lacking) > 1 || len(lacking) == 0 && len(c.parts) > 1 && w.now-c.could < slack+2*c.process.longest {
		return // for a moment all limits have permits, as the turn is a little late
	}
	for i, m := range w.metersOf(c) {
		if len(lacking) == 0 || lacking[0] == m {
			m.demanded = max(m.demanded, float64(c.parts[i].cost))
		}
	}
}

// allPaced reports whether calls need one permit of each limit, and whether the limits of this call are
// paced. Other calls of several limits are not judged: which limit holds them back changes with each call.
func (w *world) allPaced(c *call) bool {
	heavy := func(p part) bool { return p.cost > 1 }
	return !slices.ContainsFunc(c.parts, func(p part) bool { return w.plan.limits[p.limit].limit.Kind() != reserve.KindPaced }) &&
		!slices.ContainsFunc(w.plan.loads, func(l load) bool { return slices.ContainsFunc(l.parts, heavy) })
}

// isPacing reports whether the last call was made so recently that the next one may not be due. The burst
// of the provider may still be there if the burst of the limit was lost with its data.
func (m *meter) isPacing() bool {
	p, paced := m.provider.(*paced)
	if !paced {
		return false
	}
	rate, _ := p.least()
	return p.now < m.lastAt+time.Duration(m.lastCost/rate*float64(time.Second))+slack
}

// impaired reports whether a process cannot reach the server, or not at once.
func (l *link) impaired() bool {
	if l.stopped || l.vanishes() {
		return true
	}
	for i := range l.events {
		if l.events[i].strikes(l.now, l.process, hold) {
			return true
		}
	}
	return false
}

// lose notes what is lost now. Losses that follow each other are one loss.
func (m *meter) lose(now, lost time.Duration) {
	if n := len(m.lost); n > 0 && now-m.lost[n-1].to < 100*time.Millisecond {
		m.lost[n-1].to = now
		m.lost[n-1].lost += lost
		return
	}
	m.lost = append(m.lost, loss{now, lost})
}

// judgeTurn makes the providers judge a call that is made now.
func (w *world) judgeTurn(c *call) {
	c.madeAt = w.now
	for _, p := range c.parts {
		if c.process.strange && p.limit == c.process.other {
			if w.rules(p.limit) {
				w.violate("safe", "call %d of process %d is made by a limit of another kind than %s", c.n, c.process.n, w.plan.limits[p.limit].limit)
			}
			continue
		}
		m := w.meterOf(p)
		m.used += float64(p.cost)
		m.parted += w.partedBy(c, m)
		if c.unjudged = w.opens(); c.unjudged {
			if m.counts() { // it counts, and for longer than calls are not judged
				_ = m.take(float64(p.cost))
			} else if bucket, is := m.provider.(*paced); is {
				bucket.spend(float64(p.cost))
			}
			continue
		}
		m.lastAt, m.lastCost = w.now, float64(p.cost)
		if until, paused := m.isPaused(c); paused {
			w.violate("safe", "call %d of process %d is made in a pause of %s, which lasts until %v", c.n, c.process.n, m.name, until)
		}
		if err := m.take(float64(p.cost)); err != nil && !w.excused(m) {
			w.violate("safe", "the provider of %s refuses call %d of process %d: %v", m.name, c.n, c.process.n, err)
		}
	}
}

// counts reports whether the provider counts permits in a window.
func (m *meter) counts() bool {
	k := m.plan.limit.Kind()
	return k == reserve.KindQuota || k == reserve.KindRolling
}

// partedBy returns which part of a permit a call may leave unused at a limit with a burst of 1. The call also needs a
// slower limit with a burst of 1. Between two turns of a limit of 22/s, one of 36/s has 1.6 permits. If the call used two
// of them, it would be late at the slower one.
func (w *world) partedBy(c *call, m *meter) (part float64) {
	for _, p := range c.parts {
		l := w.plan.limits[p.limit].limit
		if l.Kind() == reserve.KindPaced && l.MaxBurst() == 1 && m.plan.limit.MaxBurst() == 1 && l.Rate() < m.plan.limit.Rate() {
			_, rest := math.Modf(m.plan.limit.Rate()/l.Rate() + 1e-9)
			part = max(part, rest)
		}
	}
	return part
}

// release tells the providers that a call is over.
func (w *world) release(c *call, used []int) {
	for i, p := range c.parts {
		m := w.meterOf(p)
		if (!c.unjudged || m.counts()) && (m.plan.limit.Kind() == reserve.KindSlots || c.load.used > 0) {
			m.done(c.madeAt, float64(p.cost), float64(used[i]))
		}
	}
}

// excused reports whether a provider may refuse calls because the page does not guarantee that limit: after
// a loss of data nobody knows what was used.
func (w *world) excused(m *meter) bool {
	if p, is := m.provider.(*paced); is {
		_, burst := p.least()
		lacks, found := p.lacks(), w.foundFull(m)
		if found == 0 || m.overspent+lacks > burst*float64(found) {
			return false
		}
		m.overspent += lacks
		p.store(lacks)
		return true
	}
	if m.plan.limit.Kind() == reserve.KindSlots {
		return false
	}
	return w.plan.has(restart, failOver, flush, forget, clockStep) || w.plan.policy == reserve.PolicyLocal && w.plan.troubled()
}

// foundFull counts after how many losses of data a process that remembers nothing of a limit may have found a full
// bucket, and spent it. The process had its first call of all limits since, or did not know of the loss. It remembers
// nothing until its first reply: if its request first returns turns, that takes two round trips. See docs/how-it-works.md.
func (w *world) foundFull(m *meter) (times int) {
	const hears = 1500 * time.Millisecond // a heartbeat tells of the loss
	for i := range w.plan.events {
		e := &w.plan.events[i]
		expires := e.what == clockStep && e.by > 0 // keys end at once
		if e.at > w.now || !expires && !slices.Contains([]string{restart, failOver, flush, forget}, e.what) {
			continue
		}
		for p, since := range m.users {
			if m.replies[p] >= e.at && (p.called >= e.at || since < e.at+hears && (e.what == flush || e.what == forget)) {
				times++
				break
			}
		}
	}
	return times
}

// troubled reports whether a process may lose its connection to the server.
func (p *plan) troubled() bool {
	return p.has(slices.Concat(ofMessages, ofTheWay, ofTheServer, ofMoments)...)
}

// isPaused reports whether a call is made in a pause although its process must have received the news of that
// pause, and returns when it ends. A pause that follows has news of its own.
func (m *meter) isPaused(c *call) (until time.Duration, is bool) {
	p := c.process
	for _, of := range m.pauses {
		late := p.longest + 10*time.Millisecond
		heard := of.from + late
		for i := range p.events {
			if e := &p.events[i]; e.what == stop && e.process == p.n && e.at <= heard && of.from < e.ends() {
				heard = e.ends() + late
			}
		}
		if heard < p.now && p.now < of.until && p.began+time.Second < of.from &&
			!slices.ContainsFunc(p.events, func(e event) bool {
				return !slices.Contains(ofOperators, e.what) && !slices.Contains(ofProcesses, e.what)
			}) {
			return of.until, true
		}
	}
	return 0, false
}
