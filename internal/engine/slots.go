package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// slotKeeper is the calls of this process that hold slots, and what the process sees of their slots in Redis.
type slotKeeper struct {
	holders  map[*Call]bool
	released []released        // The calls that have released their slots recently.
	audits   map[string]*audit // By key: the limits of which this process may hold slots.
}

// slots are the slots that a call holds, from its turn on.
type slots struct {
	turn   Turn
	lost   chan struct{} // Closed when the call has lost its slots to others.
	unsure bool          // Others may have them: the process counted as dead, or Redis lost its data.
	gone   bool          // lost is closed.
	freed  bool          // A call of Free has taken them away.
}

// released is a call that no longer holds its slots.
type released struct {
	number int64
	at     time.Time
}

// holds makes a call hold the slots of the turn that it uses, if there are any.
func (e *Engine) holds(c *Call) {
	if c.turn.Process == "" || c.line.slots == nil {
		return
	}
	c.slots = &slots{turn: *c.turn, lost: make(chan struct{})}
	e.holders[c] = true
}

// holding returns the calls for whose slots some is true, in the order of their numbers.
func (e *Engine) holding(some func(*slots) bool) (calls []*Call) {
	for c := range e.holders {
		if some(c.slots) {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *Call) int { return cmp.Compare(a.slots.turn.Number, b.slots.turn.Number) })
	return calls
}

// Release frees the slots of a call, and reports whether it held any. While Redis is unreachable, other calls
// get the slots only when Redis is back.
func (e *Engine) Release(now time.Time, c *Call) bool {
	if !e.holders[c] {
		return false
	}
	e.release(c, now)
	return true
}

// release frees the slots of a call.
func (e *Engine) release(c *Call, now time.Time) {
	delete(e.holders, c)
	e.released = append(e.released, released{c.slots.turn.Number, now})
	e.letGo(c, c.slots)
}

// letGo tells Redis that a call no longer holds its slots.
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

// keepSlots tells Redis which slots are held, where Redis may have forgotten it.
func (e *Engine) keepSlots(now time.Time) {
	var held []*slots
	var calls []*Call
	b := e.batch(Leave)
	for _, c := range e.holding(func(s *slots) bool { return s.unsure && !s.freed }) {
		c.Need.each(func(p Part) {
			if p.Limit.HasSlots() {
				held, calls = append(held, c.slots), append(calls, c)
				b.Left = append(b.Left, wire.Left{Limit: b.at(p.Limit), Place: c.slots.turn.Number, Cost: p.Cost, Since: c.slots.turn.Moment, Doing: c.Need.Doing()})
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
			case !e.holders[c] || c.slots != held[i]: // the call released them meanwhile, perhaps before this message was taken in
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
