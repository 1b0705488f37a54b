package asker

import (
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Slots are those that a call holds, from its turn on. They are safe for concurrent use.
type Slots struct {
	asker *Asker
	need  Need
	turn  Turn
	over  sync.Once
	lost  chan struct{}

	// All below is of the asker's lock.
	unsure bool // others may have them: the process was taken for dead, or Redis lost its data
	gone   bool // the limit is full without them
	freed  bool // somebody has taken them away
}

// endedTurn is a turn that holds its slots no longer.
type endedTurn struct {
	kind *kind
	turn *queue.Turn
}

// Keep lets a call hold the slots of a turn that it uses, until it releases them; nil: there are
// none.
func (a *Asker) Keep(need Need, turn Turn) *Slots {
	if turn.Process == "" || need.slots() == nil {
		return nil
	}
	s := &Slots{asker: a, need: need, turn: turn, lost: make(chan struct{})}
	a.lock()
	defer a.mu.Unlock()
	a.slots[s] = true
	return s
}

// Slots lets the call hold the slots of the turn that it has used; nil: there are none.
func (h *Held) Slots() *Slots { return h.asker.Keep(h.kind.need, *h.turn) }

// Release lets others have the slots. It does not wait for Redis; where that is away they are
// told when it is back.
func (s *Slots) Release() {
	s.over.Do(func() {
		s.need.each(func(p Part) {
			if p.Limit.Kind == "s" {
				p.Limit.Name.Meter.Held(time.Since(s.turn.Used))
			}
		})
		a := s.asker
		a.lock()
		defer a.mu.Unlock()
		if a.slots[s] {
			a.release(s)
			a.kick()
		}
	})
}

// Lost is closed when others have the slots, as the process was taken for dead, or as somebody has
// taken them away.
func (s *Slots) Lost() <-chan struct{} { return s.lost }

// release lets slots go. The Asker must be locked.
func (a *Asker) release(s *Slots) {
	delete(a.slots, s)
	a.over = append(a.over, released{s.turn.Number, time.Now()})
	k := a.kind(&s.need)
	k.queue.Done(&s.turn)
	a.wants(k)
}

// loadSlots takes in that a turn holds its slots no longer.
func (f *flight) loadSlots(k *kind, t *queue.Turn) {
	for i, part := range k.parts {
		if i < len(k.queue.Slots) && k.queue.Slots[i] {
			f.left = append(f.left, wire.Left{Limit: f.at(part.Limit), Place: t.Number, Cost: part.Cost, Done: true, Doing: k.need.doing()})
		}
	}
	if k.queue.Slots != nil {
		f.ended = append(f.ended, endedTurn{k, t})
	}
}

// doing is what a call holds slots for, as others see it.
func (n *Need) doing() string {
	if n.ID != "" {
		return n.ID
	}
	return n.Flow.Name
}

// keepSlots tells Redis what is held, where it may not know any more.
func (a *Asker) keepSlots() {
	a.lock()
	var held []*Slots
	f := &flight{index: map[string]int{}}
	for s := range a.slots {
		if !s.unsure || s.freed {
			continue
		}
		for _, p := range s.need.parts() {
			if p.Limit.Kind == "s" {
				held = append(held, s)
				f.left = append(f.left, wire.Left{Limit: f.at(p.Limit), Place: s.turn.Number, Cost: p.Cost, Since: s.turn.Moment, Doing: s.need.doing()})
			}
		}
	}
	a.mu.Unlock()
	if len(held) == 0 {
		return
	}
	var kept []int64
	err := a.once(a.life, f.limits, func(c *wire.Call) (reply wire.Reply, err error) {
		reply, kept, err = wire.Leave(context.WithoutCancel(a.life), c, f.left)
		return reply, err
	})
	a.lock()
	defer a.mu.Unlock()
	defer a.kick()
	for i, s := range held {
		if !a.slots[s] { // it was released meanwhile, and may have been noted after that
			a.release(s)
			continue
		}
		if err != nil { // the next heartbeat tries again
			continue
		}
		s.unsure = false
		if kept[i] == 0 {
			s.lose()
		}
	}
}

// lose tells a call that others have its slots. The Asker must be locked.
func (s *Slots) lose() {
	if !s.gone {
		s.gone = true
		close(s.lost)
	}
}

// Free lets the slots of a call go that some process made, and reports whether it held any.
func (a *Asker) Free(ctx context.Context, limit *wire.Limit, h wire.Holder) (freed bool, err error) {
	err = a.once(ctx, []*wire.Limit{limit}, func(c *wire.Call) (wire.Reply, error) {
		c.Process = h.Process
		reply, left, err := wire.Leave(ctx, c, []wire.Left{{Place: h.Number, Cost: h.Cost, Free: true, Doing: h.Doing}})
		freed = freed || err == nil && left[0] > 0
		return reply, err
	})
	return freed, err
}
