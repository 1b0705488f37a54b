package model

import "slices"

// Status says what became of a request or a claim.
type Status int64

// The numbers are those of the scripts' replies.
const (
	Refused Status = iota // would wait longer than it may
	Final                 // sleep the wait, then call
	Waiting               // claim shortly before the wait ends
)

// Request asks for a new ticket.
type Request struct {
	Cost          int64
	MaxWaitMicros float64 // refuse beyond this; -1: beyond the longest line
	ID            string
	Keep          bool // it may be asked for again under its ID when it is final
}

// Grant answers a request or a claim. Number is 0 when it was refused.
type Grant struct {
	Status     Status
	Number     int64
	WaitMicros int64
}

// Reply answers a take or a claim, with one grant per request.
type Reply struct {
	Epoch       int64
	ReachMicros int64
	Grants      []Grant
}

// Take gives each request its number, in order. With a bound of -1 none is final.
func (l *Line) Take(now int64, limit Limit, boundMicros, reachMicros float64, requests ...Request) Reply {
	l.upToNow(now, limit, reachMicros)
	var grants []Grant
	for _, r := range requests {
		grants = append(grants, l.takeOne(r, boundMicros))
	}
	return Reply{l.epoch, l.reach(), grants}
}

func (l *Line) takeOne(r Request, bound float64) Grant {
	if r.Keep {
		if g, ok := l.held(r.Cost, r.ID, bound); ok {
			return g
		}
	}
	longest := min(r.MaxWaitMicros, LongestMicros)
	if longest < 0 {
		longest = LongestMicros
	}
	e, _ := l.next(r.Cost)
	switch wait := float64(l.wait(e)); {
	case wait > longest:
		return Grant{Refused, 0, l.wait(e)}
	case wait > bound:
		if before, ok := l.heldWaiting(r.Cost, r.ID); ok {
			return before
		}
		l.accept(e, r.Cost)
		l.waiting = insert(l.waiting, Ticket{e, r.Cost, r.ID})
		return Grant{Waiting, e, l.wait(e)}
	default:
		l.accept(e, r.Cost)
		l.final = max(l.final, e)
		if r.Keep {
			l.remember(Ticket{e, r.Cost, r.ID})
		}
		return Grant{Final, e, l.wait(e)}
	}
}

// held is the usable ticket that an ID has, waiting or final.
func (l *Line) held(cost int64, id string, bound float64) (Grant, bool) {
	if g, ok := l.heldWaiting(cost, id); ok {
		return g, true
	}
	return l.heldFinal(cost, id, bound)
}

func (l *Line) heldWaiting(cost int64, id string) (Grant, bool) {
	t, ok := find(l.waiting, cost, id)
	if !ok || l.Dead(t) {
		return Grant{}, false
	}
	return Grant{Waiting, t.Number, l.wait(t.Number)}, true
}

// heldFinal winds the line back to a turn that has just passed, if nothing later
// was let through.
func (l *Line) heldFinal(cost int64, id string, bound float64) (Grant, bool) {
	t, ok := find(l.claimed, cost, id)
	if !ok {
		return Grant{}, false
	}
	if l.Late(t) {
		if t.Number != l.final || t.Number-cost < l.floor || float64(l.seen)-l.Due(t.Number) > bound {
			return Grant{}, false
		}
		l.wind(t.Number, cost)
	}
	return Grant{Final, t.Number, l.wait(t.Number)}, true
}

// Claim gives each caller that is awake the earliest number that it can have,
// in order. Only Cost and ID of the tickets are used.
func (l *Line) Claim(now int64, limit Limit, boundMicros, reachMicros float64, tickets ...Ticket) Reply {
	l.upToNow(now, limit, reachMicros)
	var grants []Grant
	for _, t := range tickets {
		grants = append(grants, l.claimOne(t.Cost, t.ID, boundMicros))
	}
	return Reply{l.epoch, l.reach(), grants}
}

func (l *Line) claimOne(cost int64, id string, bound float64) Grant {
	own, hasOwn := find(l.waiting, cost, id)
	if hasOwn && l.Dead(own) {
		l.waiting = without(l.waiting, own.Number)
		hasOwn = false
	}
	if !hasOwn {
		if g, ok := l.heldFinal(cost, id, bound); ok {
			return g
		}
	}
	l.waiting = slices.DeleteFunc(l.waiting, l.Dead)

	// The candidates; every one of them has the claimer's cost.
	fresh, isFree := l.next(cost)
	best := fresh
	if hasOwn && !(isFree && fresh < own.Number) {
		best = own.Number
	}
	var holder *Ticket // who stands on the best number, when that is not the claimer
	for _, t := range l.waiting {
		if t.Cost == cost && t.Number < best {
			best, holder = t.Number, &t
			break
		}
	}

	if float64(l.wait(best)) > bound {
		if !hasOwn {
			l.accept(fresh, cost)
			own = Ticket{fresh, cost, id}
			l.waiting = insert(l.waiting, own)
		}
		return Grant{Waiting, own.Number, l.wait(own.Number)}
	}

	switch {
	case holder != nil:
		if !hasOwn {
			l.accept(fresh, cost)
			own.Number = fresh
		}
		l.waiting = without(without(l.waiting, best), own.Number)
		l.waiting = insert(l.waiting, Ticket{own.Number, cost, holder.ID})
	case hasOwn && best == own.Number:
		l.waiting = without(l.waiting, best)
	default:
		l.accept(fresh, cost)
		if hasOwn {
			l.waiting = without(l.waiting, own.Number)
			l.giveBack(own.Number, cost)
		}
	}
	if l.Late(Ticket{Number: best, Cost: cost}) {
		l.wind(best, cost)
	}
	l.final = max(l.final, best)
	l.remember(Ticket{best, cost, id})
	return Grant{Final, best, l.wait(best)}
}

// Cancellation gives a ticket back: by ID, or, with no ID, a final one by the
// epoch and number of the reply that gave it. With an ID and the Number 1 the
// ticket keeps its place and waits again.
type Cancellation struct {
	Cost   int64
	ID     string
	Epoch  int64
	Number int64
}

// Cancel gives tickets back, in order, and reports for each whether its permits
// are in the line again.
func (l *Line) Cancel(now int64, limit Limit, tickets ...Cancellation) []bool {
	back := make([]bool, len(tickets))
	if !l.made {
		return back
	}
	l.upToNow(now, limit, 0)
	for i, c := range tickets {
		back[i] = l.cancelOne(c)
	}
	return back
}

func (l *Line) cancelOne(c Cancellation) bool {
	if c.ID == "" {
		return c.Epoch == l.epoch && c.Number <= l.final && l.giveBack(c.Number, c.Cost)
	}
	// An ID whose final ticket is of no use any more may wait under a new number.
	now, waits := find(l.waiting, c.Cost, c.ID)
	before, final := find(l.claimed, c.Cost, c.ID)
	if c.Number == 1 {
		if waits {
			return !l.Dead(now)
		}
		return final && l.waitAgain(before)
	}
	l.waiting, l.claimed = forget(l.waiting, c.Cost, c.ID), forget(l.claimed, c.Cost, c.ID)
	switch {
	case waits:
		return l.giveBack(now.Number, c.Cost)
	case final:
		return l.giveBack(before.Number, c.Cost)
	default:
		return false
	}
}

// waitAgain makes a final ticket that was not used a waiting one.
func (l *Line) waitAgain(t Ticket) bool {
	l.claimed = forget(l.claimed, t.Cost, t.ID)
	l.waiting = insert(l.waiting, t)
	l.sink()
	return !l.Dead(t)
}

// Forget frees the ID of a final ticket whose call was made, so that the next take
// or claim under it gets a ticket of its own.
func (l *Line) Forget(cost int64, id string) {
	l.claimed = forget(l.claimed, cost, id)
}

// Inspection is the line at a moment.
type Inspection struct {
	Tail        int64
	ReachMicros int64
	WaitMicros  int64 // of a ticket of cost 1 after the tail
	Limit       Limit // with which the line was last used
	Epoch       int64 // 0: there is no state
}

// Inspect looks at the line and changes nothing.
func (l *Line) Inspect(now int64, limit Limit) Inspection {
	at, last := l.At(now, limit), l.limit
	if !l.made {
		at.epoch, last = 0, limit
	}
	return Inspection{at.tail, at.reach(), at.wait(at.tail + 1), last, at.epoch}
}
