package asker

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

const (
	// unneeded is how long a process sees slots that it was given and does not use before it lets
	// them go. A turn ends before that.
	unneeded = 5 * time.Second

	mostAudits = 512                  // limits that a heartbeat looks at
	mostHeld   = 1000                 // calls of a limit that it looks at: the oldest, as what is lost stays
	perHolder  = 5 * time.Millisecond // how much longer it is until the next look
	audited    = time.Minute          // after which nobody looks who holds nothing
	underWay   = time.Second / 2      // a message that slots are held no longer is
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

// released is a call that holds its slots no longer.
type released struct {
	number int64
	at     time.Time
}

// audits notes that the process is about to hold slots of a limit. The Asker must be locked.
func (a *Asker) audits(l *wire.Limit) {
	if au := a.audit[l.Keys[0]]; au != nil {
		au.used = true
		return
	}
	a.audit[l.Keys[0]] = &audit{limit: l, used: true, pause: every}
}

// holds are the calls that hold slots, by limit and number. The Asker must be locked.
func (a *Asker) holds() map[string]map[int64]*Slots {
	all := map[string]map[int64]*Slots{}
	for s := range a.slots {
		for _, p := range s.need.parts() {
			if p.Limit.Kind == "s" {
				of := all[p.Limit.Keys[0]]
				if of == nil {
					of = map[int64]*Slots{}
					all[p.Limit.Keys[0]] = of
				}
				of[s.turn.Number] = s
				a.audits(p.Limit)
			}
		}
	}
	return all
}

// checkSlots compares what Redis says that the calls of this process hold with what they do hold. A
// message may have been lost, or a copy of one have come late.
func (a *Asker) checkSlots() {
	a.lock()
	asked := time.Now()
	before := a.holds()
	var due []*audit
	var logs []string
	for _, au := range a.audit {
		if len(due) < mostAudits && !asked.Before(au.next) {
			due, logs = append(due, au), append(logs, au.limit.Keys[2])
		}
	}
	a.mu.Unlock()
	if len(due) == 0 {
		return
	}
	held, err := wire.Held(a.life, a.cfg.Client, logs, a.process, mostHeld)
	if err != nil { // the next heartbeat looks again
		return
	}
	f := &flight{index: map[string]int{}}
	a.lock()
	now := time.Now()
	after, over := a.holds(), map[int64]time.Time{}
	for len(a.over) > 0 && now.Sub(a.over[0].at) > 2*unneeded {
		a.over = a.over[1:]
	}
	for _, r := range a.over {
		over[r.number] = r.at
	}
	for i, au := range due {
		a.compare1(f, au, held[i], before[au.limit.Keys[0]], after[au.limit.Keys[0]], over, asked, now)
	}
	clock := a.clock.redis(now)
	a.mu.Unlock()
	a.free(f, clock)
}

// compare1 takes in which calls hold slots of a limit in vain, and finds those that have lost theirs.
// The Asker must be locked.
func (a *Asker) compare1(f *flight, au *audit, held wire.HeldBy, before, after map[int64]*Slots, over map[int64]time.Time, asked, now time.Time) {
	key, there, seen := au.limit.Keys[0], map[int64]bool{}, map[int64]sight{}
	if now.Sub(au.last) > unneeded { // the process stood still: calls may be about to use their turns
		au.seen = nil
	}
	for _, h := range held.Mine {
		there[h.Number] = true
		s := after[h.Number]
		if s == nil {
			s = before[h.Number]
		}
		if h.Freed {
			if s != nil && a.slots[s] {
				s.freed = true
				s.lose()
			}
			continue
		}
		if s != nil {
			continue
		}
		at, done := over[h.Number]
		saw, ok := au.seen[h.Number]
		if !ok || saw.since != h.Since {
			saw = sight{h.Since, now}
		}
		seen[h.Number] = saw
		if done && asked.Sub(at) > underWay || now.Sub(saw.at) > unneeded {
			f.left = append(f.left, wire.Left{Limit: f.at(au.limit), Place: h.Number, Cost: h.Cost, Done: true, Doing: h.Doing})
		}
	}
	for number, s := range before {
		if held.All && a.slots[s] && after[number] == s && !there[number] && !s.freed {
			s.unsure = true
		}
	}
	if au.pause = min(2*au.pause, audited); au.used || len(seen)+len(before) > 0 {
		au.pause = every / 2
	} else if au.pause == audited {
		delete(a.audit, key)
	}
	au.used, au.seen, au.last, au.next = false, seen, now, now.Add(au.pause+time.Duration(held.Count)*perHolder)
}

// free lets slots go that nobody uses. The calls that were given theirs since then keep them.
func (a *Asker) free(f *flight, clock int64) {
	for len(f.left) > 0 {
		part := &flight{index: map[string]int{}}
		n := min(len(f.left), mostFreed)
		for _, l := range f.left[:n] {
			l.Limit = part.at(f.limits[l.Limit])
			part.left = append(part.left, l)
		}
		f.left = f.left[n:]
		if a.onceOnly(a.life, part.limits, func(c *wire.Call) (wire.Reply, error) {
			c.Clock = clock
			reply, _, err := wire.Leave(a.life, c, part.left)
			return reply, err
		}) != nil {
			return // the next heartbeat tries again
		}
		a.lock()
		a.looks(part.limits)
		a.mu.Unlock()
	}
}
