package engine

import (
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
	for c := range e.holders {
		if !c.slots.unsure || c.slots.freed {
			continue
		}
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

const (
	// unneeded is how long a process sees slots that it was given and does not use before it lets
	// them go. A turn ends before that.
	unneeded = 5 * time.Second

	mostAudits = 512                  // limits that a heartbeat looks at
	mostHeld   = 1000                 // calls of a limit that it looks at: the oldest, as what is lost stays
	perHolder  = 5 * time.Millisecond // how much longer it is until the next look
	audited    = time.Minute          // after which a process that holds nothing does not look any more
	onItsWay   = time.Second / 2      // a message that slots are held no longer is
	mostFreed  = 12                   // calls in a message
)

// audit is what a process has seen of its slots of one limit.
type audit struct {
	limit *wire.Limit
	used  bool // since the last look
	last  time.Time
	next  time.Time
	pause time.Duration   // until then
	seen  map[int64]sight // calls that hold slots and do not use them, by number
}

// sight is when a process saw first that a call holds slots since a time of Redis.
type sight struct {
	since float64
	at    time.Time
}

// auditOf notes that the process is about to hold slots of a limit: it looks again soon, however long nobody
// has used the limit.
func (e *Engine) auditOf(l *wire.Limit, now time.Time) {
	if a := e.audits[l.Keys[0]]; a != nil {
		if a.used = true; a.pause > every/2 {
			a.pause, a.next = every/2, earlier(a.next, now.Add(every/2))
		}
		return
	}
	e.audits[l.Keys[0]] = &audit{limit: l, used: true, pause: every}
}

// holdersOf are the calls that hold slots, by limit and number.
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

// checkSlots compares what Redis says that the calls of this process hold with what they do hold. A
// message may have been lost, or a copy of one have come late. Then it tells Redis what is held.
func (e *Engine) checkSlots(now time.Time) {
	if e.closed {
		return
	}
	before := e.holdersOf(now)
	b := e.batch(Holders)
	b.process = e.cfg.Process
	var due []*audit
	for _, a := range e.audits {
		if len(due) < mostAudits && !now.Before(a.next) {
			due, b.Logs = append(due, a), append(b.Logs, a.limit.Keys[2])
		}
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
	for len(e.released) > 0 && now.Sub(e.released[0].at) > 2*unneeded {
		e.released = e.released[1:]
	}
	for _, r := range e.released {
		over[r.number] = r.at
	}
	var left []wire.Left
	var limits []*wire.Limit
	for i, a := range due {
		key := a.limit.Keys[0]
		some := e.compareAudit(a, held[i], before[key], after[key], over, asked, now)
		for range some {
			limits = append(limits, a.limit)
		}
		left = append(left, some...)
	}
	e.freeSlots(limits, left, e.clock.redis(now), now)
}

// compareAudit finds out which calls hold slots of a limit in vain, and which have lost theirs.
func (e *Engine) compareAudit(a *audit, held wire.HeldBy, before, after map[int64]*slots, over map[int64]time.Time, asked, now time.Time) (left []wire.Left) {
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
	if a.pause = min(2*a.pause, audited); a.used || len(seen)+len(before) > 0 {
		a.pause = every / 2
	} else if a.pause == audited {
		delete(e.audits, a.limit.Keys[0])
	}
	a.used, a.seen, a.last, a.next = false, seen, now, now.Add(a.pause+time.Duration(held.Count)*perHolder)
	return left
}

// freeSlots lets slots go that no call uses, of one limit each, as was known at a time of Redis. Calls
// that were given theirs since then keep them.
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
