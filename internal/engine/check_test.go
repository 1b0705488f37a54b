package engine

import (
	"fmt"
	"slices"
	"time"
)

// check returns what is wrong with the engine: each file says at its top what is to be true of its data.
// Tests call it after each Ready.
func (e *Engine) check(now time.Time) error {
	if len(e.touched) > 0 || !e.down() && e.gate == nil && len(e.outbox) > 0 {
		return fmt.Errorf("%d lines are not planned and %d batches not sent", len(e.touched), len(e.outbox))
	}
	for i, a := range e.alarms {
		if a.index != i+1 || i > 0 && a.at.Before(e.alarms[(i-1)/2].at) {
			return fmt.Errorf("alarm %d of %d has index %d", i, len(e.alarms), a.index)
		}
	}
	for k, l := range e.lines {
		if l.key != k || !l.listed || e.inUse[l.index] != l || len(e.inUse) != len(e.lines) {
			return fmt.Errorf("a line has another key or index than its own")
		}
		if err := l.check(e, now); err != nil {
			return fmt.Errorf("%w: %d wait, %d are given, %d places, %d asked, %d unused, %d returning, queued %v", err, len(l.waiting), len(l.given), len(l.places), l.asked, len(l.unused), l.returning, l.queued)
		}
	}
	return nil
}

func (l *line) check(e *Engine, now time.Time) error {
	for i, c := range l.waiting {
		if c.state != Waiting || c.line != l || c.over.Load() || i < 64 && slices.Contains(l.waiting[:i], c) {
			return fmt.Errorf("call %d does not wait", i)
		}
	}
	for i, c := range l.given {
		if c.state != Given || c.turn == nil || c.line != l || i > 0 && c.turn.Due.Before(l.given[i-1].turn.Due) {
			return fmt.Errorf("call %d has no turn", i)
		}
	}
	asking := 0
	for i, p := range l.places {
		if i > 0 && l.places[i-1].tag() > p.tag() {
			return fmt.Errorf("place %d is before the one before it", i)
		}
		if p.asking {
			asking++
		}
	}
	if l.asked < 0 || e.busy+len(e.traffic.kept) == 0 && (l.asked > 0 || asking > 0) {
		return fmt.Errorf("%d places ask, and no batch is under way", asking)
	}
	if in := slices.Contains(e.queue.fresh, l) || slices.Contains(e.queue.waiting, l); l.queued != in || in && e.busy == 0 && !e.down() {
		return fmt.Errorf("it is queued: %v", in)
	}
	if l.queued || l.returning > 0 || e.down() || e.closed || slices.Contains(e.behind, l) {
		return nil
	}
	t := *e.clock.times(now)
	t.lead, t.near = 0, 0 // they may have been others when it was planned
	when, ok := l.due(&t)
	if ok && (l.alarm.index == 0 || l.alarm.at.After(later(when, now.Add(time.Millisecond)))) {
		return fmt.Errorf("the line is due %v from now, and its alarm is set %v, at %v", when.Sub(now), l.alarm.index > 0, l.alarm.at.Sub(now))
	}
	return nil
}
