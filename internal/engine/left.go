package engine

import (
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file is what a process leaves in Redis: places that no call needs, turns that no call uses,
// and slots that no call holds any more.

// takeLeft takes in what a line leaves, and returns how many items that is. A turn that can not go back
// is lost.
func (e *Engine) takeLeft(b *Batch, l *line, now time.Time) int {
	first := len(b.Left)
	for _, p := range l.takeSpare() {
		t := &Turn{Number: p.number}
		b.leaveSlots(l, t) // of a turn that was over
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
	slices.SortFunc(unused, func(a, b *Turn) int { return b.Due.Compare(a.Due) }) // the last one first
	for _, t := range unused {
		switch {
		case t.Process == "":
			continue
		case l.slots == nil && l.need.ID == "" && !l.isLast(t):
			if t.stays = true; now.Before(t.Until) {
				l.unused = append(l.unused, t)
			}
			continue
		}
		b.leaveSlots(l, t)
		if lease := e.leases[l.need.Limit]; lease != nil && l.leases() && !e.closed && !t.Due.After(now) {
			t.Ask = "" // its ask may have been given others that the lease has used
			lease.keep(t, l.need.Cost, e.answered.Add(trusted))
			continue
		}
		b.leaveTurn(l, t)
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

// leavePlace takes in the place of a call. The process does not know at which limit it is now.
func (b *Batch) leavePlace(l *line, t *Turn) {
	for _, part := range l.parts {
		b.Left = append(b.Left, wire.Left{Limit: b.at(part.Limit), Place: t.Number, Cost: part.Cost, Flow: l.need.Flow})
	}
	if l.slots == nil {
		b.ended = append(b.ended, endedTurn{l, t})
	}
}

// spends notes which ask has spent permits of its limits last.
func (l *line) spends(ask string) {
	for _, p := range l.parts {
		p.Limit.Spent = ask
	}
}

// isLast reports whether the ask of a turn is the last one of this process that has spent permits at the
// limits: turns of no other ask go back.
func (l *line) isLast(t *Turn) bool {
	return !slices.ContainsFunc(l.parts, func(p Part) bool { return p.Limit.Spent != t.Ask })
}

// leaveTurn takes in a turn that nobody uses.
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

// leaveSlots takes in that a turn holds its slots no longer.
func (b *Batch) leaveSlots(l *line, t *Turn) {
	if l.slots == nil {
		return
	}
	for i, part := range l.parts {
		if l.slots[i] {
			b.Left = append(b.Left, wire.Left{Limit: b.at(part.Limit), Place: t.Number, Cost: part.Cost, Done: true, Doing: l.need.doing()})
		}
	}
	b.ended = append(b.ended, endedTurn{l, t})
}

// leaveID takes in what becomes of the ID of a call that leaves; tags are those that it had. Where it
// is booked and expected, it counts at the limit that held it back most.
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

// returned notes that what was left with a batch is back, and lets its calls ask.
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

// keepLeft keeps turns that did not go back, as other processes have spent since: calls that wait or come in time use
// them. If the batch was sent again, nobody knows whether its first attempt returned them.
func (e *Engine) keepLeft(b *Batch, r *Result, now time.Time) {
	for _, g := range b.goes {
		l, t := g.line, g.turn
		if b.tries > 0 || r.Counts[g.item] > 0 || e.closed || !now.Before(t.Until) || len(e.moves) > 0 && !e.stands(l, t, r.Sent) {
			continue
		}
		t.stays = true
		if len(l.waiting) == 0 && l.need.ID != "" {
			if l = e.heir(l); l == nil {
				continue
			}
		}
		e.list(l)
		l.give(t, now)
	}
}

// heir returns a line for a turn that no call of another line needs: one whose call has waited the longest, or else one
// that other calls will join. Nil: there is none.
func (e *Engine) heir(of *line) (heir *line) {
	for _, l := range e.inUse {
		n := &l.need
		if l == of || n.Part != of.need.Part || len(n.More) > 0 || n.Settles != of.need.Settles || n.Now || n.Flow != of.need.Flow {
			continue
		}
		switch waits := len(l.needed()) > 0; {
		case waits && (heir == nil || len(heir.needed()) == 0 || l.oldest().Before(heir.oldest())), heir == nil && n.ID == "":
			heir = l
		}
	}
	return heir
}

// isReturning reports whether a limit of a line is about to have permits back.
func (e *Engine) isReturning(l *line) bool {
	return len(e.traffic.returning) > 0 && slices.ContainsFunc(l.parts, func(p Part) bool { return e.traffic.returning[p.Limit.Keys[0]] > 0 })
}
