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

// The code below repairs what Redis knows of slots. The message that a call is done may have been lost, and a copy
// of an old message may have come late. After each heartbeat the process compares the calls that hold slots in
// Redis with the calls that hold slots here. It frees the slots of calls that do not hold any here.

const (
	// unneeded is how long the process sees slots in Redis that no call uses here before it frees them. A turn
	// ends before that.
	unneeded = 5 * time.Second

	// remembered is how long the process knows which calls have released their slots. Meanwhile it does not wait
	// longer than unneeded between two comparisons: it frees at once the slots that a late copy of an ask takes.
	remembered = 4 * unneeded

	mostAudits = 512                  // limits that are compared after a heartbeat
	mostHeld   = 1000                 // calls of a limit that are compared: the oldest ones, as lost slots stay
	perHolder  = 5 * time.Millisecond // how much longer the pause is for each call that holds slots
	audited    = time.Minute          // the longest pause: then a process that holds nothing stops comparing
	onItsWay   = time.Second / 2      // the longest delay of a message that slots are released
	mostFreed  = 12                   // calls in a message
)

// audit is what the process has seen of its slots of one limit.
type audit struct {
	limit *wire.Limit
	used  time.Time // when the process last held slots, as a heartbeat saw it
	last  time.Time // when the last comparison was answered
	next  time.Time
	pause time.Duration   // between the last comparison and the next one
	seen  map[int64]sight // calls that hold slots and do not use them, by number
}

// sight is when the process first saw that a call holds slots, and since which time of Redis the call holds
// them.
type sight struct {
	since float64
	at    time.Time
}

// auditOf notes that the process is about to hold slots of a limit. The next comparison comes soon, even if
// nobody has used the limit for long.
func (e *Engine) auditOf(l *wire.Limit, now time.Time) {
	if a := e.audits[l.Keys[0]]; a != nil {
		if a.used = now; a.pause > every/2 {
			a.pause, a.next = every/2, earlier(a.next, now.Add(every/2))
		}
		return
	}
	e.audits[l.Keys[0]] = &audit{limit: l, used: now, pause: every}
}

// holdersOf returns the calls that hold slots, by limit and number.
func (e *Engine) holdersOf(now time.Time) map[string]map[int64]*slots {
	all := map[string]map[int64]*slots{}
	for c := range e.holders {
		c.Need.each(func(p Part) {
			if !p.Limit.HasSlots() {
				return
			}
			of := all[p.Limit.Keys[0]]
			if of == nil {
				of = map[int64]*slots{}
				all[p.Limit.Keys[0]] = of
			}
			of[c.slots.turn.Number] = c.slots
			e.auditOf(p.Limit, now)
		})
	}
	return all
}

// auditSlots compares the calls that hold slots in Redis with the calls that hold slots here. Then it tells
// Redis which slots are held.
func (e *Engine) auditSlots(now time.Time) {
	if e.closed {
		return
	}
	before := e.holdersOf(now)
	b := e.batch(Holders)
	b.process = e.cfg.Process
	var due []*audit
	for _, a := range e.audits {
		if !now.Before(a.next) {
			due = append(due, a)
		}
	}
	slices.SortFunc(due, func(a, b *audit) int {
		return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.limit.Keys[0], b.limit.Keys[0]))
	})
	due = due[:min(len(due), mostAudits)]
	for _, a := range due {
		b.Logs = append(b.Logs, a.limit.Keys[2])
	}
	if len(due) == 0 {
		e.recycle(b)
		e.keepSlots(now)
		return
	}
	asked := now
	b.answered = func(now time.Time, r *Result) {
		e.compareSlots(due, r.Held, before, asked, now)
		e.keepSlots(now)
	}
	b.failed = func(now time.Time, _ error) { e.keepSlots(now) } // the next heartbeat looks again
	e.send(b, now)
}

func (e *Engine) compareSlots(due []*audit, held []wire.HeldBy, before map[string]map[int64]*slots, asked, now time.Time) {
	after, over := e.holdersOf(now), map[int64]time.Time{}
	for len(e.released) > 0 && now.Sub(e.released[0].at) > remembered {
		e.released = e.released[1:]
	}
	for _, r := range e.released {
		over[r.number] = r.at
	}
	var left []wire.Left
	var limits []*wire.Limit
	for i, a := range due {
		key := a.limit.Keys[0]
		some := e.findUnused(a, held[i], before[key], after[key], over, asked, now)
		for range some {
			limits = append(limits, a.limit)
		}
		left = append(left, some...)
	}
	e.freeSlots(limits, left, e.clock.redis(now), now)
}

// findUnused finds calls that hold slots of a limit in Redis and not here, and calls that have lost theirs.
func (e *Engine) findUnused(a *audit, held wire.HeldBy, before, after map[int64]*slots, over map[int64]time.Time, asked, now time.Time) (left []wire.Left) {
	there, seen := map[int64]bool{}, map[int64]sight{}
	if now.Sub(a.last) > unneeded { // the process stood still: calls may be about to use their turns
		a.seen = nil
	}
	stillHeld := func(number int64, s *slots) bool { return after[number] == s }
	for _, h := range held.Mine {
		there[h.Number] = true
		s := after[h.Number]
		if s == nil {
			s = before[h.Number]
		}
		if h.Freed {
			if s != nil && stillHeld(h.Number, s) {
				s.freed = true
				s.lose()
			}
			continue
		}
		if s != nil {
			continue
		}
		at, done := over[h.Number]
		saw, ok := a.seen[h.Number]
		if !ok || saw.since != h.Since {
			saw = sight{h.Since, now}
		}
		seen[h.Number] = saw
		if done && asked.Sub(at) > onItsWay || now.Sub(saw.at) > unneeded {
			left = append(left, wire.Left{Place: h.Number, Cost: h.Cost, Done: true, Doing: h.Doing})
		}
	}
	for number, s := range before {
		if held.All && stillHeld(number, s) && !there[number] && !s.freed {
			s.unsure = true
		}
	}
	idle := now.Sub(a.used)
	if a.pause = min(2*a.pause, audited); idle < now.Sub(a.last) || len(seen)+len(before) > 0 {
		a.pause = every / 2
	} else if idle < remembered {
		a.pause = min(a.pause, unneeded)
	} else if a.pause == audited {
		delete(e.audits, a.limit.Keys[0])
	}
	a.seen, a.last, a.next = seen, now, now.Add(a.pause+time.Duration(held.Count)*perHolder)
	return left
}

// freeSlots frees slots that no call uses. known is the time of Redis at which that was so: calls that were
// given the slots later keep them.
func (e *Engine) freeSlots(limits []*wire.Limit, left []wire.Left, known int64, now time.Time) {
	if len(left) == 0 {
		return
	}
	n := min(len(left), mostFreed)
	b := e.batch(Leave)
	b.known = known
	for i, l := range left[:n] {
		l.Limit = b.at(limits[i])
		b.Left = append(b.Left, l)
	}
	b.answered = func(now time.Time, _ *Result) {
		e.lookAfter(b.limits, now)
		e.freeSlots(limits[n:], left[n:], known, now)
	}
	b.failed = func(time.Time, error) {} // the next heartbeat tries again
	e.once(b, now)
}
