package engine

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Callers whose deadline is too short for the queue try again soon, thousands of times a second. As
// long as a forecast is fresh, the process answers them itself.

// late is the turns that came too late for a call, and what may have made them come earlier since.
type late struct {
	missed  map[key]missed
	full    map[key]full
	changed map[string]time.Time // by key: when turns of the limit were heard to come earlier than that
}

// missed is the forecast of a call at the end of a line.
type missed struct {
	turn  time.Time
	heard time.Time // when that was so
	limit int       // the index of the one that holds it back most
}

const (
	// A forecast is fresh for a part of the wait, and for a while at most: for longer where the process
	// hears of all that lets turns come sooner.
	freshPart, surePart       = 16, 8
	longestFresh, longestSure = 500 * time.Millisecond, time.Second

	// doubtPart is which part of its age a forecast may be wrong by where the process does not hear
	// that: a call whose turn would be that little too late asks Redis.
	doubtPart  = 8
	leastDoubt = 10 * time.Millisecond

	mostMissed = 10_000 // lines and limits of which something is remembered
)

// Margin is by how much the turn of a call is to be before its deadline at the most: else it might be lost,
// where a forecast or a timer is a little off.
const Margin = slop + time.Millisecond

// full is the error of a call that must not wait, as too many do, and until when others get it, too.
type full struct {
	err   error
	until time.Time
}

// fullFor is for how long a queue that was full counts as full. Then one call asks again.
const fullFor = 20 * time.Millisecond

// isFull notes that too many calls wait at a limit of a line, and returns the error of those that must not.
func (e *Engine) isFull(l *line, limit *wire.Limit, turn, now time.Time) error {
	err := e.cfg.Errors.Full(limit, turn)
	if e.late.full == nil || len(e.late.full) >= mostMissed {
		e.late.full = map[key]full{}
	}
	e.late.full[l.need.key()] = full{err, now.Add(fullFor)}
	return err
}

// fresh reports whether the forecast still says when a turn is, and by how much it may be wrong, if the
// process hears news or not.
func (m *missed) fresh(now time.Time, hears bool) (doubt time.Duration, fresh bool) {
	age, wait := now.Sub(m.heard), m.turn.Sub(m.heard)
	if hears {
		return leastDoubt, age <= min(longestSure, wait/surePart)
	}
	return max(leastDoubt, age/doubtPart), age <= min(longestFresh, wait/freshPart)
}

// remember notes that the turn of a call of a line would come too late.
func (e *Engine) remember(of key, turn time.Time, limit int, now time.Time) {
	if limit < 0 {
		return
	}
	if e.missed == nil || len(e.missed) >= mostMissed {
		e.missed = map[key]missed{}
	}
	// Of several that are told together the first one is where a new call would stand.
	if m := e.missed[of]; now.Sub(m.heard) > leastDoubt || turn.Before(m.turn) {
		e.missed[of] = missed{turn, now, limit}
	}
}

// refuseFull ends the wait of a new call whose queue was full a moment ago, and reports that it did.
func (e *Engine) refuseFull(c *Call, now time.Time) bool {
	if c.Need.ID != "" || c.Need.Now || e.outage != nil { // a call with an ID may have its place already
		return false
	}
	of := c.Need.key()
	f, ok := e.late.full[of]
	if ok && now.Before(f.until) {
		e.refuse(c, f.err)
		return true
	}
	if ok { // one call finds out for the others
		f.until = now.Add(fullFor)
		e.late.full[of] = f
	}
	return false
}

// turnAway ends the wait of a new call, and reports that it did, whose turn would come too late as that
// of another one would a moment ago.
func (e *Engine) turnAway(c *Call, now time.Time) bool {
	if c.Deadline.IsZero() || c.Need.Now || len(e.missed) == 0 || e.outage != nil {
		return false
	}
	of := c.Need.key()
	m, ok := e.missed[of]
	if !ok {
		return false
	}
	doubt, fresh := m.fresh(now, now.Sub(e.heard) <= deafAfter)
	if !fresh || e.changedSince(&c.Need, m.heard) {
		delete(e.missed, of)
		return false
	}
	if !m.turn.Add(-doubt).After(c.Deadline) {
		return false
	}
	e.refuse(c, e.cfg.Errors.Missed(m.turn, c.Deadline, m.limit))
	return true
}

// forgetMissed notes that turns of the limit with a key may come earlier than was told; without a key,
// those of all limits.
func (e *Engine) forgetMissed(key string, now time.Time) {
	if e.late.full = nil; len(e.missed) == 0 {
		e.late.changed = nil
		return
	}
	switch {
	case key == "":
		e.missed, e.late.changed = nil, nil
	default:
		if e.late.changed == nil || len(e.late.changed) >= mostMissed {
			clear(e.missed)
			e.late.changed = map[string]time.Time{}
		}
		e.late.changed[key] = now
	}
}

// changedSince reports whether turns of a need may come earlier than was told at a moment.
func (e *Engine) changedSince(n *Need, heard time.Time) bool {
	return len(e.late.changed) > 0 && n.any(func(l *wire.Limit) bool { return !e.late.changed[l.Keys[0]].Before(heard) })
}
