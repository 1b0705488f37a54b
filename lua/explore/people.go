package main

import (
	"context"
	"fmt"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// people adds what operators may do to the limits.
func (b *branch) people() {
	const pause = 350_000
	if b.can(Pause) && b.from.paused <= b.from.now {
		b.add(func(w *world) {
			w.paused = w.now + pause
			b.verb(w, 0, nil, func(c *wire.Call) (wire.Reply, error) {
				reply, _, err := wire.Pause(context.Background(), c, duration(pause), "why", false)
				return reply, err
			})
		}, "somebody pauses the limits for %v", duration(pause))
	}
	if b.can(Pause) && b.from.paused > b.from.now {
		b.add(func(w *world) {
			w.paused = w.now
			b.verb(w, 0, nil, func(c *wire.Call) (wire.Reply, error) { return wire.Resume(context.Background(), c) })
		}, "somebody ends the pause")
	}
	if b.can(Set) {
		b.set(b.Sets, func(c *wire.Call) (wire.Reply, error) {
			return wire.Set(context.Background(), c, b.Sets, 0)
		})
		b.set(b.Limits[0], func(c *wire.Call) (wire.Reply, error) { return wire.Reset(context.Background(), c) })
	}
}

// set puts another limit in force. The provider follows when the granted turns are over.
func (b *branch) set(to wire.Terms, verb func(c *wire.Call) (wire.Reply, error)) {
	p := &b.from.providers[0]
	if to.A == p.a && to.B == p.b && p.follows == 0 || p.follows > 0 && to.A == p.nextA && to.B == p.nextB {
		return
	}
	b.add(func(w *world) {
		last := w.now
		for c := range w.calls {
			switch cl := &w.calls[c]; cl.state {
			case turn:
				last = max(last, cl.from)
			case coming, unsure:
				last = max(last, w.now+b.Way.Microseconds()+horizon)
			}
		}
		w.providers[0].change(to.A, to.B, float64(last))
		b.verb(w, 0, []int{0}, verb)
	}, "somebody puts the limit %s in force", fmt.Sprint(duration(int64(to.A)), " ", to.B))
}
