package model

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

// Reply answers a take, a claim or a charge; the first two with one grant per
// request.
type Reply struct {
	Epoch        int64
	SeenMicros   int64 // the time
	ReachMicros  int64
	Live         int64 // processes
	Idle         int64 // permits
	ResumeMicros int64 // until the line goes on after an outage
	Plain        bool  // a quick will do
	PauseMicros  int64 // until a pause ends
	Gen          int64 // how often final tickets were given other turns
	Final        int64 // the number that ReachMicros is of
	Limit        Limit // that is in force
	Grants       []Grant
	Stale        bool // an old copy of a call that was repeated; nothing was changed
}

func (l *Line) reply(grants []Grant) Reply {
	return Reply{
		Epoch: l.epoch, SeenMicros: l.seen, ReachMicros: l.reach(),
		Live: l.live, Idle: l.idle, ResumeMicros: l.resumeIn(), Plain: l.Plain(),
		PauseMicros: l.pauseIn(), Gen: l.gen, Final: l.final, Limit: l.limit, Grants: grants,
	}
}

// Take gives each request its number, in order. With a bound of -1 none is final.
func (l *Line) Take(now int64, limit Limit, c Caller, boundMicros float64, requests ...Request) Reply {
	if l.stale(c) {
		return Reply{Stale: true}
	}
	l.upToNow(now, limit, c)
	gave := make([]int64, len(requests))
	if l.call.replay {
		gave = l.recover(c, requests)
	}
	trace := make([]int64, len(requests))
	var grants []Grant
	for i, r := range requests {
		g := l.takeOne(r, gave[i], boundMicros)
		if g.Status == Final && !r.Keep {
			trace[i] = g.Number
		}
		grants = append(grants, g)
	}
	l.sign(c, trace)
	return l.reply(grants)
}

// recover returns the numbers that a repeated call was given before. If those at
// its end are the last ones that are final, in one row, and the first of these
// is late, the line is moved so that it fits.
func (l *Line) recover(c Caller, requests []Request) []int64 {
	gave := make([]int64, len(requests))
	own := l.members[c.Member]
	copy(gave, own.gave)
	if e := own.before; own.row {
		for i, r := range requests {
			e += r.Cost
			gave[i] = e
		}
	}
	var last, below int64
	for i, e := range gave {
		if e > l.final {
			gave[i] = 0 // it went back meanwhile
		}
		if gave[i] == 0 {
			continue
		}
		if i == 0 || gave[i-1] == 0 || e != last+requests[i].Cost {
			below = e - requests[i].Cost
		}
		last = e
	}
	late := up(float64(l.seen) - l.Due(below) - l.fillMicros())
	if last > 0 && last == l.mark() && below >= l.floor && late > 0 {
		l.rewind(late, below)
	}
	return gave
}

func (l *Line) takeOne(r Request, before int64, bound float64) Grant {
	if !r.Keep && before > 0 && l.fits(Ticket{Number: before, Cost: r.Cost}) {
		return Grant{Final, before, l.wait(before)}
	}
	if r.Keep {
		if g, ok := l.held(r.Cost, r.ID, bound); ok {
			return g
		}
	} else if l.call.replay {
		if g, ok := l.heldWaiting(r.Cost, r.ID); ok {
			return g
		}
	}
	longest := min(r.MaxWaitMicros, LongestMicros)
	if longest < 0 {
		longest = LongestMicros
	}
	if r.Cost > l.limit.Burst {
		return Grant{Refused, 0, LongestMicros}
	}
	e, _ := l.next(r.Cost)
	asBefore := l.call.replay && !r.Keep && before == 0 && r.MaxWaitMicros >= 0
	switch wait := float64(l.wait(e)); {
	case asBefore || wait > longest:
		return Grant{Refused, 0, l.wait(e)}
	case wait > bound:
		if held, ok := l.heldWaiting(r.Cost, r.ID); ok {
			return held
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
		if t.Number != l.mark() || t.Number-cost < l.floor || float64(l.seen)-l.Due(t.Number) > bound {
			return Grant{}, false
		}
		l.wind(t.Number, cost)
	}
	return Grant{Final, t.Number, l.wait(t.Number)}, true
}

// Claim gives each caller that is awake the earliest number that it can have,
// in order. Only Cost and ID of the tickets are used.
func (l *Line) Claim(now int64, limit Limit, c Caller, boundMicros float64, tickets ...Ticket) Reply {
	if l.stale(c) {
		return Reply{Stale: true}
	}
	l.upToNow(now, limit, c)
	var grants []Grant
	for _, t := range tickets {
		grants = append(grants, l.claimOne(t.Cost, t.ID, boundMicros))
	}
	l.sign(c, nil)
	return l.reply(grants)
}

func (l *Line) claimOne(cost int64, id string, bound float64) Grant {
	own, hasOwn := find(l.waiting, cost, id)
	if hasOwn && l.Dead(own) {
		l.lose(own)
		hasOwn = false
	}
	if !hasOwn {
		if g, ok := l.heldFinal(cost, id, bound); ok {
			return g
		}
	}
	l.loseDead()

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
		if l.displaced(own) {
			return Grant{Waiting, best, l.wait(best)}
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
		has := Ticket{own.Number, cost, holder.ID}
		l.waiting = insert(l.waiting, has)
		if float64(l.wait(has.Number)) > bound {
			l.claimed = insert(l.claimed, has.moved())
		}
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
// ticket keeps its place and waits again, with the Number 2 only if others stand behind
// it. With an ID, an Epoch of 0 is any.
type Cancellation struct {
	Cost   int64
	ID     string
	Epoch  int64
	Number int64
}

// Cancel gives tickets back, in order, and reports for each whether its permits
// are in the line again; for none when the call is stale.
func (l *Line) Cancel(now int64, limit Limit, c Caller, tickets ...Cancellation) []bool {
	if l.stale(c) {
		return nil
	}
	back := make([]bool, len(tickets))
	if !l.made {
		return back
	}
	_, known := l.members[c.Member]
	forgotten := c.Serial > 0 && c.Member != "" && !known
	l.upToNow(now, limit, c)
	for i, t := range tickets {
		if l.call.replay || forgotten && t.ID == "" || t.ID != "" && t.Epoch > 0 && t.Epoch != l.call.epochRead {
			// It was carried out, or nobody knows any more whether it was.
			held, waits := find(l.waiting, t.Cost, t.ID)
			back[i] = t.ID != "" && t.Number > 0 && waits && !l.Dead(held)
		} else {
			back[i] = l.cancelOne(t)
		}
	}
	l.sign(c, nil)
	return back
}

func (l *Line) cancelOne(c Cancellation) bool {
	if c.ID == "" {
		return c.Epoch == l.epoch && c.Number <= l.final && l.giveBack(c.Number, c.Cost)
	}
	// An ID whose final ticket is of no use any more may wait under a new number.
	now, waits := find(l.waiting, c.Cost, c.ID)
	before, final := find(l.claimed, c.Cost, c.ID)
	if c.Number == 1 || c.Number == 2 && !(final && before.Number == l.tail) {
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

	Live         int64 // processes, when last counted
	ResumeMicros int64 // until the line goes on after an outage
	PauseMicros  int64 // until a pause ends
	Gen          int64 // how often final tickets were given other turns
	SetMicros    int64 // for how long a limit is in force that was set for all; -1: for good
}

// Inspect looks at the line and changes nothing.
func (l *Line) Inspect(now int64, limit Limit) Inspection {
	at, last := l.At(now, limit), l.limit
	if !l.made {
		at.epoch, last = 0, limit
	}
	return Inspection{
		Tail: at.tail, ReachMicros: up(at.Due(at.tail) - float64(now)), WaitMicros: at.wait(at.tail + 1),
		Limit: last, Epoch: at.epoch, Live: at.live, ResumeMicros: at.resumeIn(),
		PauseMicros: at.pauseIn(), Gen: at.gen, SetMicros: at.setFor(),
	}
}
