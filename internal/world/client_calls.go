package world

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/reserve"
)

// joins makes a call wait for its turn. Its outcome goes to world.turn or world.fail.
func (m *client) joins(c *call) {
	need := engine.Need{Settles: m.world.plan.limits[c.parts[0].limit].settles, Now: c.load.now}
	for i, p := range c.parts {
		of := engine.Part{Limit: m.limit(p), Cost: int64(p.cost)}
		if i == 0 {
			need.Part = of
		} else {
			need.More = append(need.More, of)
		}
	}
	if l := c.load; l.flow != "" || l.urgent {
		need.Flow = wire.Flow{Name: l.flow, Weight: cmp.Or(l.weight, 1)}
		if l.urgent {
			need.Flow.Urgent = 0.5
		}
	}
	const patience = 5 * time.Millisecond
	if need.ID = c.id; c.id != "" && !c.back {
		need.Patience = cmp.Or(c.load.stays, patience)
	} else if c.id != "" {
		need.Patience = time.Hour
	}
	e := engine.NewCall(need)
	e.Held = m.holds(c) || c.load.used > 0 || c.id != "" || c.load.lapses > 0
	m.calls[e], m.joined[c] = c, e
	if c.deadline > 0 && !need.Now {
		if e.Deadline = m.world.began.Add(c.deadline); c.id != "" || c.load.used > 0 && !m.holds(c) {
			e.Deadline = time.Time{} // its deadline applies to the wait alone
		}
		m.here(c.deadline-m.now, func() {
			if c.state == waiting {
				m.leave(c)
				m.world.fail(c, context.DeadlineExceeded)
			}
		})
	}
	if !e.Held {
		drawn := false
		m.step(func(now time.Time) { _, drawn = m.engine.Draw(now, &need) })
		if drawn {
			m.has(c)
			return
		}
	}
	m.step(func(now time.Time) { m.engine.Join(now, e) })
	if c.load.lapses > 0 && c.state == waiting && m.world.plan.source("waits", c.n).IntN(2) == 0 {
		var err error // its caller waits from the beginning, and wakes late
		if m.step(func(now time.Time) { err = m.engine.Resume(now, e) }); err != nil {
			m.forget(c)
			m.world.fail(c, err)
			return
		}
		c.waits = true
	}
}

// wake makes calls check whether they have their turns.
func (m *client) wake(all []*engine.Call) {
	for _, e := range slices.Clone(all) {
		if c := m.calls[e]; c != nil && c.state == waiting {
			m.look(c, e)
		}
	}
}

func (m *client) look(c *call, e *engine.Call) {
	v := m.engine.View(e)
	switch {
	case c.load.lapses > 0 && !c.comes && v.State != engine.Booked && v.State != engine.Failed:
		c.comes = true
		m.here(time.Duration(m.world.plan.source("lapse", c.n).Float64()*float64(c.load.lapses)), func() {
			if c.state == waiting {
				if v := m.engine.View(e); v.State == engine.Given && m.time().After(v.Until()) {
					for i, of := range m.world.metersOf(c) {
						of.lapsed += float64(c.parts[i].cost)
					}
				}
				m.look(c, e)
			}
		})
		return
	case v.State == engine.Booked:
		m.forget(c)
		m.world.booked(c, v.Due.Sub(m.world.began))
		return
	case v.State == engine.Used && !m.time().After(v.Until()):
		m.has(c)
		return
	}
	var left time.Duration
	var err error
	step := m.step
	if v.State == engine.Failed && m.world.plan.has(hardStop) { // its caller calls again before the process does anything else
		step = func(event func(time.Time)) { event(m.time()) }
		defer m.step(func(time.Time) {})
	}
	step(func(now time.Time) {
		if e.Held && !c.waits { // it has a turn or a place, and its caller waits for it from now on
			c.waits = true
			err = m.engine.Resume(now, e)
		}
		if err == nil {
			left, err = m.engine.Look(now, e, 0)
		}
	})
	switch {
	case c.state != waiting: // it ended meanwhile
	case err != nil:
		m.forget(c)
		m.world.fail(c, err)
	case left == 0:
		m.has(c)
	case left > 0:
		m.here(left, func() {
			if c.state == waiting && m.joined[c] == e {
				m.look(c, e)
			}
		})
	}
}

// holds reports whether a call holds slots, by the limits of its process.
func (m *client) holds(c *call) bool {
	return m.world.plan.holds(c.load) || m.strange && m.kind.Kind() == reserve.KindSlots
}

// has makes a call that has its turn.
func (m *client) has(c *call) {
	if m.holds(c) {
		m.held = append(m.held, c)
	}
	for _, p := range c.parts { // as Process does
		l := m.limit(p)
		l.Calls.Add(1)
		l.Further.Add(int64(p.cost) - 1)
	}
	m.world.turn(c)
}

func (m *client) forget(c *call) {
	delete(m.calls, m.joined[c])
	delete(m.joined, c)
	m.held = slices.DeleteFunc(m.held, func(o *call) bool { return o == c })
}

// isGranted reports whether a call has a turn that it has not used.
func (m *client) isGranted(c *call) bool {
	e := m.joined[c]
	return e != nil && m.engine.View(e).State == engine.Given
}

// mayBeGranted reports whether Redis may have granted the turn of a call: the reply may be on its way.
func (m *client) mayBeGranted(c *call) bool {
	return m.isGranted(c) || !slices.ContainsFunc(m.world.metersOf(c), func(of *meter) bool { return m.asksFor(of) == 0 })
}

// flight is an ask in flight. If its reply was lost, it is sent again.
type flight struct {
	serial  int64
	scripts int                // the number of asks that Redis had answered when it was first sent
	lost    map[*meter]float64 // its permits, if a reply may have been lost
}

// sends notes that a batch is sent.
func (m *client) sends(b *engine.Batch) {
	m.asksAgain(b)
	if b.Script == engine.Ask && m.asks[b].serial != b.Call.Serial {
		m.takenBack(m.asks[b])
		m.asks[b] = flight{serial: b.Call.Serial, scripts: m.server.answered()}
	}
}

// remembers returns of how many asks Redis can take back turns of a quota: see EARLIER of quota.lua. Scripts of earlier
// processes remember the last ask alone.
func (p *plan) remembers() int {
	if slices.ContainsFunc(p.processes, func(q processPlan) bool { return q.version == earlier }) {
		return 1
	}
	return 9
}

// hasSent notes that a batch is back. If its reply was lost, Redis takes back its turns of a quota. If it has answered
// more asks since than it remembers, these turns are lost.
func (m *client) hasSent(b *engine.Batch, err error) {
	m.isAnswered(b, err)
	f := m.asks[b]
	switch {
	case f.serial != b.Call.Serial || b.Script != engine.Ask:
	case fault.Away(err):
		f.lost = m.permitsOfAll(b)
		m.asks[b] = f
	default:
		for o, f := range m.asks {
			if o == b || f.serial != o.Call.Serial { // it is over, or has failed for good
				m.takenBack(f)
				delete(m.asks, o)
			}
		}
	}
}

// takenBack notes that Redis takes back the turns of an ask, or that they are lost.
func (m *client) takenBack(f flight) {
	for of, permits := range f.lost {
		if of.plan.limit.Kind() == reserve.KindQuota && m.server.answered()-f.scripts > m.world.plan.remembers() {
			of.gone += permits
		}
	}
}

// permitsOfAll returns how many permits of each limit a batch asks for.
func (m *client) permitsOfAll(b *engine.Batch) map[*meter]float64 {
	all := map[*meter]float64{}
	for _, of := range m.world.meters {
		all[of] = m.permitsOf(b, of)
	}
	return all
}

// permitsOf returns how many permits of a limit a batch asks for.
func (m *client) permitsOf(b *engine.Batch, of *meter) (permits float64) {
	key := m.world.plan.keys(of.limit, of.key)[0]
	for i := range b.Items {
		for _, p := range b.Items[i].Parts {
			if b.Call.Limits[p.Limit].Keys[0] == key {
				permits += float64(int64(b.Items[i].Count) * p.Cost)
			}
		}
	}
	return permits
}

// asksFor returns how many permits of a limit the asks in flight ask for.
func (m *client) asksFor(of *meter) (permits float64) {
	for b, f := range m.asks {
		if f.serial == b.Call.Serial { // otherwise it has failed for good
			permits += m.permitsOf(b, of)
		}
	}
	return permits
}

// leave ends a call that no longer waits.
func (m *client) leave(c *call) {
	e := m.joined[c]
	if m.mayBeGranted(c) {
		for i, of := range m.world.metersOf(c) {
			of.givenUp += float64(c.parts[i].cost)
		}
	}
	m.forget(c)
	m.step(func(now time.Time) {
		left := false
		if e.Held {
			left = m.engine.Cancel(now, e)
		} else {
			left = m.engine.Leave(now, e)
		}
		if !left {
			m.engine.Release(now, e)
		}
	})
}

// done ends a call that was made: its slots are free, or its cost is settled.
func (m *client) done(c *call, used []int) {
	e := m.joined[c]
	m.forget(c)
	switch {
	case m.holds(c):
		m.step(func(now time.Time) { m.engine.Release(now, e) })
	case c.load.used > 0:
		turn := *m.engine.View(e).Turn
		if len(m.told) == 0 {
			m.here(max(0, m.tells.Sub(m.time())), m.settle)
		}
		for i, p := range c.parts {
			m.told = append(m.told, wire.Used{ID: wire.CallID(turn.Process, turn.Number), Cost: int64(p.cost), Used: int64(used[i]), Flow: e.Need.Flow})
			m.toldOf = append(m.toldOf, m.limit(p))
		}
	}
}

// settle settles the calls that are done, with one script call.
func (m *client) settle() {
	items, of := m.told, m.toldOf
	m.told, m.toldOf, m.tells = nil, nil, m.time().Add(engine.SettleEvery)
	var limits []*wire.Limit
	for i, l := range of {
		if !slices.Contains(limits, l) {
			limits = append(limits, l)
		}
		items[i].Limit = slices.Index(limits, l)
	}
	m.try(limits, func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
		reply, _, err := wire.Settle(ctx, c, items)
		return reply, err
	}, func(wire.Reply, error) {})
}

// lookForLost tells the world which calls may have lost their slots.
func (m *client) lookForLost() {
	for _, c := range slices.Clone(m.held) {
		if lost := m.engine.View(m.joined[c]).Lost; lost != nil {
			select {
			case <-lost:
				m.world.slotsLost(c)
			default:
			}
		}
	}
}

// try repeats a script call that is not part of a batch, until Redis answers or counts as unreachable.
func (m *client) try(limits []*wire.Limit, call func(context.Context, *wire.Call) (wire.Reply, error), told func(wire.Reply, error)) {
	m.errand(func(ctx context.Context) {
		for failures := 0; ; failures++ {
			c := &wire.Call{Client: m.redis, Limits: limits}
			reply, err, sent := wire.Reply{}, error(nil), m.time()
			m.step(func(now time.Time) { err = m.engine.Tries(now, c) })
			if err == nil {
				reply, err = call(ctx, c)
				m.step(func(now time.Time) { err = m.engine.Tried(now, c, &reply, sent, now, err, false) })
			}
			if errors.Is(err, wire.ErrAgain) && failures == 0 {
				continue
			}
			pause, over := m.engine.TriesAgain(err, failures)
			if err == nil || !fault.Away(err) || over || !rests(ctx, pause, m.here) {
				told(reply, err)
				return
			}
		}
	})
}

// move does something to a limit, as an operator.
func (m *client) move(limits []*wire.Limit, call func(context.Context, *wire.Call) (wire.Reply, error), moved func(now time.Time, limits []*wire.Limit, micros int64)) {
	m.step(func(time.Time) { m.engine.Moves(limits) })
	m.try(limits, call, func(reply wire.Reply, err error) {
		if err != nil {
			reply.Micros = 0
		}
		m.step(func(now time.Time) { moved(now, limits, reply.Micros) })
	})
}

func (m *client) pause(limit int, d time.Duration) {
	m.pausesBy(limit, d, func(ctx context.Context, c *wire.Call) (wire.Reply, []time.Duration, error) {
		return wire.Pause(ctx, c, d, "the world", false)
	})
}

// only returns a limit, for move.
func (m *client) only(limit int) []*wire.Limit { return []*wire.Limit{m.limit(part{limit: limit})} }

// pausesBy pauses a limit for a time by a script call.
func (m *client) pausesBy(limit int, d time.Duration, call func(context.Context, *wire.Call) (wire.Reply, []time.Duration, error)) {
	var left []time.Duration
	m.move(m.only(limit), func(ctx context.Context, c *wire.Call) (reply wire.Reply, err error) {
		reply, left, err = call(ctx, c)
		return reply, err
	}, func(now time.Time, limits []*wire.Limit, micros int64) {
		if m.engine.HasPaused(now, limits, micros, left); micros == 0 {
			m.engine.Rest(now, limits, now.Add(d))
		}
	})
}

func (m *client) resume(limit int) {
	m.move(m.only(limit), func(ctx context.Context, c *wire.Call) (wire.Reply, error) { return wire.Resume(ctx, c) }, m.engine.HasMoved)
}

func (m *client) set(limit int, to reserve.Limit) {
	t := termsOf(to)
	m.move(m.only(limit), func(ctx context.Context, c *wire.Call) (wire.Reply, error) {
		return wire.Set(ctx, c, t, time.Hour)
	}, m.engine.HasMoved)
}

func (m *client) reset(limit int) { m.move(m.only(limit), wire.Reset, m.engine.HasMoved) }
