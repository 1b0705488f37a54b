package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// slotKeeper is the calls of this process that hold slots, and what it sees of that in Redis.
type slotKeeper struct {
	holders  map[*Call]bool
	released []released        // Calls that have let theirs go of late.
	audits   map[string]*audit // By key: limits of which this process may hold slots.
}

// slots are those that a call holds, from its turn on.
type slots struct {
	turn   Turn
	lost   chan struct{} // It is closed when others have them.
	unsure bool          // Others may have them: the process was taken for dead, or Redis lost its data.
	gone   bool          // lost is closed.
	freed  bool          // Somebody has taken them away.
}

// released is a call that holds its slots no longer.
type released struct {
	number int64
	at     time.Time
}

// holds lets a call hold the slots of the turn that it uses, if there are any.
func (e *Engine) holds(c *Call) {
	if c.turn.Process == "" || c.line.slots == nil {
		return
	}
	c.slots = &slots{turn: *c.turn, lost: make(chan struct{})}
	e.holders[c] = true
}

// holding are the calls that hold some of the slots, the first ones first.
func (e *Engine) holding(some func(*slots) bool) (calls []*Call) {
	for c := range e.holders {
		if some(c.slots) {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *Call) int { return cmp.Compare(a.slots.turn.Number, b.slots.turn.Number) })
	return calls
}

// Release lets others have the slots of a call, and reports whether it held any. Where Redis is away
// they are told when it is back.
func (e *Engine) Release(now time.Time, c *Call) bool {
	if !e.holders[c] {
		return false
	}
	e.release(c, now)
	return true
}

// release lets the slots of a call go.
func (e *Engine) release(c *Call, now time.Time) {
	delete(e.holders, c)
	e.released = append(e.released, released{c.slots.turn.Number, now})
	e.letGo(c, c.slots)
}

// letGo tells Redis that a call holds slots no longer.
func (e *Engine) letGo(c *Call, s *slots) {
	l := e.lineOf(&c.Need)
	l.touch()
	l.done = append(l.done, &s.turn)
}

// lose tells a call that others have its slots.
func (s *slots) lose() {
	if !s.gone {
		s.gone = true
		close(s.lost)
	}
}

// keepSlots tells Redis what is held, where it may not know any more.
func (e *Engine) keepSlots(now time.Time) {
	var held []*slots
	var calls []*Call
	b := e.batch(Leave)
	for _, c := range e.holding(func(s *slots) bool { return s.unsure && !s.freed }) {
		c.Need.each(func(p Part) {
			if p.Limit.HasSlots() {
				held, calls = append(held, c.slots), append(calls, c)
				b.Left = append(b.Left, wire.Left{Limit: b.at(p.Limit), Place: c.slots.turn.Number, Cost: p.Cost, Since: c.slots.turn.Moment, Doing: c.Need.doing()})
			}
		})
	}
	if len(held) == 0 {
		e.recycle(b)
		return
	}
	b.answered = func(_ time.Time, r *Result) {
		for i, c := range calls {
			switch {
			case !e.holders[c] || c.slots != held[i]: // it was released meanwhile, and may have been noted after that
				e.letGo(c, held[i])
			case r.Counts[i] == 0:
				held[i].unsure = false
				held[i].lose()
			default:
				held[i].unsure = false
			}
		}
	}
	b.failed = func(time.Time, error) { // the next heartbeat tries again
		for i, c := range calls {
			if !e.holders[c] || c.slots != held[i] {
				e.letGo(c, held[i])
			}
		}
	}
	e.once(b, now)
}
