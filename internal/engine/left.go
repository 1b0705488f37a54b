package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file returns to Redis what a process no longer needs: places that no call needs, turns that no call
// uses, and slots that no call holds any more.

// takeLeft adds what a line returns to a batch, and returns the number of items. A turn that cannot be returned
// stays for calls that come in time.
func (e *Engine) takeLeft(b *Batch, l *line, now time.Time) int {
	first := len(b.Left)
	for _, p := range l.takeSpare() {
		t := &Turn{Number: p.number}
		b.leaveSlots(l, t) // its turn may have expired, and may hold slots still
		if !l.books {
			b.leavePlace(l, t)
		}
		if l.need.ID != "" {
			b.leaveID(l, p.number, p.tags, p.limit)
		}
	}
	for _, t := range l.done {
		b.leaveSlots(l, t)
		if t.Process == "" {
			b.leavePlace(l, t)
		}
	}
	unused := l.unused
	l.done, l.unused = nil, nil
	slices.SortFunc(unused, func(a, b *Turn) int { return cmp.Or(b.Due.Compare(a.Due), cmp.Compare(b.Permit, a.Permit)) }) // the last one first, also at one moment of a quota
	for _, t := range unused {
		if t.Process == "" {
			continue
		}
		b.leaveSlots(l, t)
		if lease := e.leases[l.need.Limit]; lease != nil && l.leases() && !e.closed && !t.Due.After(now) && l.isLast(t) {
			t.Ask = "" // its ask may have been given other permits that the lease has used
			lease.keep(t, l.need.Cost, e.answered.Add(trusted))
			continue
		}
		if l.slots == nil && !l.returns(t) {
			if e.leases[l.need.Limit] == nil || !l.isLast(t) {
				e.stay(l, t, now)
			}
		} else {
			b.leaveTurn(l, t)
		}
		if l.books {
			b.leaveID(l, t.Number, l.tagsOf(t), 0)
		}
	}
	n := len(b.Left) - first
	if n > 0 {
		b.left = append(b.left, l)
		l.returning++
	}
	return n
}

// leavePlace adds the place of a call. The process does not know at which limit the place is now, so there is
// an item for each limit.
func (b *Batch) leavePlace(l *line, t *Turn) {
	for _, part := range l.parts {
		b.Left = append(b.Left, wire.Left{Limit: b.at(part.Limit), Place: t.Number, Cost: part.Cost, Flow: l.need.Flow})
	}
	if l.slots == nil {
		b.ended = append(b.ended, endedTurn{l, t})
	}
}

// spends notes which ask has last spent permits of the limits of the line.
func (l *line) spends(ask string) {
	for _, p := range l.parts {
		p.Limit.Spent = ask
	}
}

// stay keeps a turn that cannot be returned. Calls that wait or come in time use it.
func (e *Engine) stay(l *line, t *Turn, now time.Time) {
	t.stays = true
	if now.After(t.keptUntil()) {
		return
	}
	if len(l.waiting) == 0 && l.need.ID != "" {
		if e.comeForward(l, t) {
			return
		}
		if l = e.heir(l); l == nil {
			return
		}
	}
	e.list(l)
	l.give(t, now)
}

// comeForward gives a turn that no call of its line needs to calls of other lines that have later turns. Each of
// them gets the turn of the one before it, so the last turn is left over. It reports false, and does nothing, if
// there are no such calls, or if a call of such a line has no turn yet.
func (e *Engine) comeForward(of *line, t *Turn) bool {
	var later []*Call
	for _, l := range e.inUse {
		if l == of || !l.isAlike(&of.need) {
			continue
		}
		if len(l.needed()) > 0 {
			return false
		}
		for _, c := range l.given {
			if c.turn.Due.After(t.Due) && c.turn.Process != "" {
				later = append(later, c)
			}
		}
	}
	if len(later) == 0 {
		return false
	}
	slices.SortStableFunc(later, func(a, b *Call) int { return a.turn.Due.Compare(b.turn.Due) })
	for _, c := range later {
		left := c.turn
		c.has(t)
		c.line.wake(c)
		t, of = left, c.line
	}
	t.stays = false
	of.unused = append(of.unused, t)
	of.touch()
	return true
}

// isAlike reports whether a turn for a need is a turn for calls of the line, too.
func (l *line) isAlike(of *Need) bool {
	n := &l.need
	return n.Part == of.Part && len(n.More)+len(of.More) == 0 && n.Settles == of.Settles && !n.Now && n.Flow == of.Flow
}

// returns reports whether Redis can take back a turn. Its ask has to be the last one of this process that has
// spent permits of the limits, and no call needs a later turn of that ask.
func (l *line) returns(t *Turn) bool {
	if len(l.parts) > 1 && !t.Alone {
		return false
	}
	return l.isLast(t) && (len(l.parts) > 1 || t.canGoBack())
}

// isLast reports whether the ask of a turn is the last one of this process that has spent permits of the
// limits. Turns of earlier asks cannot be returned.
func (l *line) isLast(t *Turn) bool {
	return !slices.ContainsFunc(l.parts, func(p Part) bool { return p.Limit.Spent != t.Ask })
}

// leaveTurn adds a turn that no call uses, if it can be returned.
func (b *Batch) leaveTurn(l *line, t *Turn) {
	switch {
	case len(l.parts) == 1 && l.slots != nil:
	case len(l.parts) == 1 && t.goBack(l.need.Cost):
		keep := t.Permit - l.need.Cost
		if keep == 0 {
			l.spends("")
		}
		b.goes = append(b.goes, goingTurn{endedTurn{l, t}, len(b.Left)})
		b.Left = append(b.Left, wire.Left{Limit: b.at(l.need.Limit), Turns: t.Ask, Cost: keep})
	case len(l.parts) > 1 && t.Alone:
		l.spends("")
		for _, part := range l.parts {
			b.Left = append(b.Left, wire.Left{Limit: b.at(part.Limit), Turns: t.Ask})
		}
	}
}

// leaveSlots adds that a turn no longer holds its slots.
func (b *Batch) leaveSlots(l *line, t *Turn) {
	if l.slots == nil {
		return
	}
	for i, part := range l.parts {
		if l.slots[i] {
			b.Left = append(b.Left, wire.Left{Limit: b.at(part.Limit), Place: t.Number, Cost: part.Cost, Done: true, Doing: l.need.Doing()})
		}
	}
	b.ended = append(b.ended, endedTurn{l, t})
}

// leaveID adds what becomes of the ID of a call that leaves. tags are the tags of the call. If the call is
// booked and expected, it counts at the limit that delayed it most.
func (b *Batch) leaveID(l *line, number int64, tags []int64, slowest int) {
	for i, part := range l.parts {
		left := wire.Left{Limit: b.at(part.Limit), Place: number, ID: l.need.ID, Cost: part.Cost, Flow: l.need.Flow}
		if l.books {
			if left.Tag = -tags[i]; i == slowest && !l.unsure {
				left.Tag = tags[i]
			}
		}
		b.Left = append(b.Left, left)
	}
}

// returned notes that Redis has what was left with a batch, and lets its lines ask. Then the batch itself asks,
// if it has something to ask for.
func (e *Engine) returned(b *Batch, now time.Time) {
	for _, l := range b.left {
		l.returning--
		l.touch()
	}
	for _, left := range b.Left {
		key := b.limits[left.Limit].Keys[0]
		if e.traffic.returning[key]--; e.traffic.returning[key] == 0 {
			delete(e.traffic.returning, key)
		}
	}
	for _, l := range e.behind {
		l.followed = true
		if !l.queued {
			e.queue.add(l)
		}
	}
	e.behind = nil
	b.tries = 0
	if len(b.Items) == 0 {
		b.isOver(e)
		return
	}
	b.driven = false
	b.becomes(Ask, b.caller, b.back)
	e.outbox = append(e.outbox, b)
}

// keepLeft keeps turns that Redis did not take back, because other processes have spent since. Calls that wait
// or come in time use them. If the batch was sent again, nobody knows whether its first attempt returned them.
func (e *Engine) keepLeft(b *Batch, r *Result, now time.Time) {
	for _, g := range b.goes {
		l, t := g.line, g.turn
		if b.tries > 0 || r.Counts[g.item] > 0 || e.closed || len(e.moves) > 0 && !e.stands(l, t, r.Sent) {
			continue
		}
		e.stay(l, t, now)
	}
}

// heir returns another line whose calls can use a turn that no call of this line needs. It is the line whose
// call has waited the longest, or otherwise a line that new calls join. Nil: no line can use it.
func (e *Engine) heir(of *line) (heir *line) {
	for _, l := range e.inUse {
		if l == of || !l.isAlike(&of.need) {
			continue
		}
		switch waits := len(l.needed()) > 0; {
		case waits && (heir == nil || len(heir.needed()) == 0 || l.oldest().Before(heir.oldest())), heir == nil && l.need.ID == "":
			heir = l
		}
	}
	return heir
}

// isReturning reports whether permits of a limit of the line are on their way back.
func (e *Engine) isReturning(l *line) bool {
	return len(e.traffic.returning) > 0 && slices.ContainsFunc(l.parts, func(p Part) bool { return e.traffic.returning[p.Limit.Keys[0]] > 0 })
}
