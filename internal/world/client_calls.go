package world

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// join lets a call wait in a goroutine of its own.
func (m *client) join(c *call) {
	ctx, cancel := context.WithCancel(context.Background())
	if c.deadline > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), c.deadline-m.now)
	}
	m.cancels[c] = cancel
	m.world.busy.Go(func() {
		defer cancel()
		r, err := m.wait(ctx, c)
		m.world.Lock()
		defer m.world.Unlock()
		delete(m.cancels, c)
		if m.dead {
			return
		}
		m.held[c] = r
		switch {
		case err != nil:
			m.world.fail(c, err)
		case !m.world.turn(c):
			m.finish(c, nil)
		case r != nil && m.world.plan.holds(c.load):
			m.watch(c, r)
		}
	})
}

// wait waits for the turn of a call. A Reservation is returned of one that is ended by done.
func (m *client) wait(ctx context.Context, c *call) (*reserve.Reservation, error) {
	var costs []int
	var limits []*reserve.Limiter
	for i, p := range c.parts {
		l := m.limiters[p.limit]
		if p.key != "" {
			l = l.For(p.key)
		}
		if i == 0 && c.load.flow != "" {
			l = l.Flow(c.load.flow)
			if c.load.weight > 0 {
				l = l.Weight(c.load.weight)
			}
		}
		if c.load.urgent {
			l = l.Urgent()
		}
		limits, costs = append(limits, l), append(costs, p.cost)
	}
	j, err := reserve.All(limits...)
	switch {
	case err != nil:
		return nil, err
	case m.world.plan.holds(c.load):
		return j.Acquire(ctx, costs...)
	case c.load.used == 0:
		return nil, j.Wait(ctx, costs...)
	}
	r, err := j.Reserve(ctx, costs...)
	if err != nil {
		return nil, err
	}
	if err = r.Wait(ctx); err != nil {
		_ = r.Cancel(context.WithoutCancel(ctx))
		return nil, err
	}
	return r, nil
}

func (m *client) giveUp(c *call) {
	if cancel := m.cancels[c]; cancel != nil {
		cancel()
	}
}

func (m *client) done(c *call, used []int) { m.finish(c, used) }

// finish ends a call that has had its turn.
func (m *client) finish(c *call, used []int) {
	r := m.held[c]
	delete(m.held, c)
	if released := m.released[c]; released != nil {
		close(released)
		delete(m.released, c)
	}
	switch {
	case r == nil:
	case m.world.plan.holds(c.load):
		m.background(func(context.Context) { r.Release() })
	case used != nil:
		m.background(func(ctx context.Context) { _ = r.Settle(ctx, used...) })
	}
}

// watch tells the world if the slots of a call are lost while it holds them.
func (m *client) watch(c *call, r *reserve.Reservation) {
	released := make(chan struct{})
	m.released[c] = released
	m.world.busy.Go(func() {
		select {
		case <-r.Lost():
			m.world.Lock()
			defer m.world.Unlock()
			m.world.slotsLost(c)
		case <-released:
		case <-m.world.closed:
		}
	})
}

// background does something that takes its time.
func (m *client) background(do func(context.Context)) {
	m.world.busy.Go(func() { do(context.Background()) })
}

func (m *client) pause(limit int, d time.Duration) {
	m.background(func(ctx context.Context) { _ = m.limiters[limit].Pause(ctx, d, "the world") })
}

func (m *client) resume(limit int) {
	m.background(func(ctx context.Context) { _ = m.limiters[limit].Resume(ctx) })
}

func (m *client) set(limit int, to reserve.Limit) {
	m.background(func(ctx context.Context) { _ = m.limiters[limit].SetLimit(ctx, to, time.Hour) })
}

func (m *client) reset(limit int) {
	m.background(func(ctx context.Context) { _ = m.limiters[limit].ResetLimit(ctx) })
}

func (m *client) states(told func([]reserve.State, error)) {
	m.background(func(ctx context.Context) {
		var all []reserve.State
		var err error
		for _, l := range m.limiters {
			var s reserve.State
			if s, err = l.State(ctx); err != nil {
				break
			}
			all = append(all, s)
		}
		m.world.Lock()
		defer m.world.Unlock()
		told(all, err)
	})
}

// end closes the limiters. A process that is dead tells nobody.
func (m *client) end() {
	m.background(func(context.Context) {
		for _, l := range m.limiters {
			_ = l.Close()
		}
		_ = m.redis.Close()
	})
}
