package world

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file plays hard stops, and judges them. "hard-stop by=2s" lasts for two seconds, and everybody knows that.
// Nobody knows the end of "hard-stop for=1s by=5s": calls probe it, and the provider serves the first probe after
// a second. After each probe before that, the limit is stopped again, for five seconds.

const (
	probeEvery = 100 * time.Millisecond
	nobody     = time.Hour // nobody probes a stop before that
)

// stopLimit stops a limit as an event says.
func (m *client) stopLimit(e *event) {
	until, every := time.Time{}, probeEvery
	if e.lasts == 0 {
		until, every = m.time().Add(e.by), nobody
		m.world.meterOf(part{limit: e.limit}).known = m.now + e.by
	}
	m.pausesBy(e.limit, e.by, func(ctx context.Context, c *wire.Call) (wire.Reply, []time.Duration, error) {
		return wire.Stop(ctx, c, e.by, until, "the world", every)
	})
}

// probe lets a call probe the stop that has ended it, if it may, as package reserve does.
func (m *client) probe(c *call) {
	due := false
	var limits []*wire.Limit
	for _, p := range c.parts {
		l := m.limit(p)
		limits = append(limits, l)
		if s := l.Stopped(); s != nil {
			if in := l.ProbesIn(s, m.time()); in > 0 && in <= probeEvery || s.Until.After(m.time()) {
				return
			}
			due = true
		}
	}
	if !due {
		return
	}
	var stops []int64
	m.try(limits, func(ctx context.Context, c *wire.Call) (reply wire.Reply, err error) {
		reply, stops, err = wire.Probe(ctx, c, probeEvery)
		return reply, err
	}, func(_ wire.Reply, err error) {
		if err == nil && slices.ContainsFunc(stops, func(stop int64) bool { return stop > wire.NotYet }) {
			m.world.note("call %d of process %d probes %v", c.n, m.n, stops)
			m.here(time.Duration(m.world.plan.source("probe", c.n).Float64()*float64(probeEvery)), func() { m.probed(c, limits, stops) })
		}
	})
}

// probed stops the limits again for which the provider has refused a probe, or ends their stops.
func (m *client) probed(c *call, limits []*wire.Limit, stops []int64) {
	refused := false
	for i := range m.world.plan.events {
		e := &m.world.plan.events[i]
		of := slices.IndexFunc(c.parts, func(p part) bool { return p.limit == e.limit && p.key == "" })
		if e.what == hardStop && e.at <= m.now && m.now < e.at+e.lasts && of >= 0 && stops[of] > wire.NotYet {
			refused = true
			m.stopLimit(e)
		}
	}
	if !refused {
		m.move(limits, func(ctx context.Context, c *wire.Call) (wire.Reply, error) { return wire.Resume(ctx, c, stops...) }, m.engine.HasMoved)
	}
}

// followPause lets a meter follow a script that has paused its limit, stopped it, let a call probe, or ended that.
func (w *world) followPause(m *meter, probes bool) {
	until, reason := w.now, ""
	if state := w.server.Data.Find(w.key(m.limit)); state != nil {
		for _, f := range state.Items {
			switch f.Member {
			case "pausedUntilMicros":
				micros, _ := strconv.ParseFloat(f.Value, 64)
				until = max(until, time.Duration(micros)*time.Microsecond-w.server.epoch-w.server.step)
			case "reason":
				reason = f.Value
			}
		}
	}
	stop := wire.StoppedOf(reason)
	if probes {
		if stop != nil && reason != m.probes {
			if w.now < m.known {
				w.violate("safe", "a call probes the stop of %s %v before its known end", m.name, m.known-w.now)
			}
			if w.now < m.probed+probeEvery && !w.plan.has(slices.Concat(ofTheServer, ofMoments)...) {
				w.violate("safe", "a call probes the stop of %s %v after another one", m.name, w.now-m.probed)
			}
			m.probes, m.probed = reason, w.now
		}
		return
	}
	if reason != m.probes {
		m.probes, m.probed = reason, w.now
	}
	m.pause(until)
	if until == w.now {
		for k := range m.pauses {
			m.pauses[k].until = min(m.pauses[k].until, w.now)
		}
	} else {
		m.pauses = append(m.pauses, paused{w.now, until})
	}
	switch n := len(m.stops) - 1; {
	case n >= 0 && m.stops[n].until > w.now:
		m.stops[n].until = until
	case stop != nil:
		m.stops = append(m.stops, paused{w.now, until})
	}
}

// stopOf returns the hard stop of a meter, if nothing of late, and no loss of its data, leaves it in doubt.
func (w *world) stopOf(m *meter) (s paused, is bool) {
	const settled = 3 * time.Second
	if len(m.stops) == 0 {
		return s, false
	}
	s = m.stops[len(m.stops)-1]
	return s, w.now < s.until && !slices.ContainsFunc(w.plan.events, func(e event) bool {
		loses := slices.Contains(ofTheServer, e.what) || slices.Contains(ofMoments, e.what)
		return !slices.Contains(ofOperators, e.what) && e.at <= w.now && (w.now < e.ends()+settled || loses && s.from <= e.at)
	})
}

// judgeStops is the law that calls at a stopped limit fail. Calls that wait as it is stopped do so within a second,
// and others as soon as Redis has answered. Shortly before a stop ends, calls may have turns for then. Processes of
// earlier versions take a stop for a pause.
func (w *world) judgeStops() {
	for _, c := range w.waiting {
		p := c.process
		if c.id != "" || c.load.now || p.strange || p.version == earlier || p.began+time.Second > w.now || p.isGranted(c) {
			continue
		}
		for _, m := range w.metersOf(c) {
			s, is := w.stopOf(m)
			may := 50*time.Millisecond + 14*p.longest // six trips, as the table says of first calls, and its own
			if c.joined < s.from {
				may += time.Second
			}
			if waits := w.now - max(c.joined, s.from); is && waits > may {
				w.violate("alive", "call %d of process %d waits in a hard stop of %s for %v, and may wait for %v", c.n, p.n, m.name, waits, may)
			}
		}
	}
}

// isStopped reports whether a call may have the error of a hard stop: a reply says so that may be on its way as it ends.
func (w *world) isStopped(c *call) bool {
	return w.plan.has(hardStop) && w.plan.troubled() || slices.ContainsFunc(w.metersOf(c), func(m *meter) bool {
		return slices.ContainsFunc(m.stops, func(s paused) bool { return c.joined <= s.until+c.process.longest })
	})
}

// logStops makes a process log what it has heard, as package reserve does, and judges whether that is true.
func (m *client) logStops() {
	asked := m.now
	m.states(func(all []wire.State, err error) {
		if err != nil {
			return
		}
		for _, of := range m.world.meters {
			s, is := m.world.stopOf(of)
			state := all[of.limit]
			if stop := wire.StoppedOf(state.Reason); is && s.from <= asked && (stop == nil || stop.Reason != "the world" || state.Paused <= 0) {
				m.world.violate("true", "%s is stopped until %v, and the state says %q, for %v", of.name, s.until, state.Reason, state.Paused)
			}
		}
	})
}

// drawStop draws a hard stop, which a resume may end.
func (d *drawer) drawStop() {
	d = &drawer{d.source("hard stop", 0), d.plan}
	if !d.chance(0.15) || !slices.ContainsFunc(d.processes, func(q processPlan) bool { return q.version != earlier }) {
		return
	}
	e := event{at: d.moment(), what: hardStop, process: anybody, limit: d.IntN(len(d.limits)), by: d.duration(200*time.Millisecond, 5*time.Second)}
	if d.chance(0.6) {
		e.lasts = d.duration(100*time.Millisecond, 3*time.Second)
	}
	d.events = append(d.events, e)
	if d.chance(0.4) { // few callers, as each call asks for all that wait
		for i := range d.loads {
			d.loads[i].callers = min(d.loads[i].callers, 1+d.IntN(3))
		}
	}
	if d.chance(0.3) {
		d.events = append(d.events, event{at: e.at + d.duration(time.Millisecond, e.by), what: resume, process: anybody, limit: e.limit})
	}
}
