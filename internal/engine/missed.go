package engine

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Callers whose deadline is too short for the queue try again soon, thousands of times a second. As
// long as a forecast is fresh, the process answers them itself.

// refusals is the forecasts that were too late for a call, and queues that were full.
type refusals struct {
	missed map[key]missed
	full   map[key]full
}

// missed is the forecast for a call at the end of a line.
type missed struct {
	turn  time.Time
	heard time.Time // when the forecast came
	limit int       // the index of the limit that delays the call most
}

const (
	// A forecast is fresh for a part of the wait, and for a while at most. Both are longer where the process
	// receives news of everything that makes turns come sooner.
	freshPart, surePart       = 16, 8
	longestFresh, longestSure = 500 * time.Millisecond, time.Second

	// doubtPart is the part of its age by which a forecast may be wrong where the process receives no news. If
	// the turn of a call would be too late by no more than that, the call asks Redis.
	doubtPart  = 8
	leastDoubt = 10 * time.Millisecond

	mostMissed = 10_000 // lines and limits that are remembered
)

// Margin is the most by which the turn of a call has to come before its deadline. Otherwise the turn might be
// lost, where a forecast or a timer is a little off.
const Margin = slop + time.Millisecond

// full is the error of a call that must not wait, as too many calls do, and until when other calls get it, too.
type full struct {
	err   error
	until time.Time
}

// fullFor is how long a queue that was full counts as full. After that, one call asks again.
const fullFor = 20 * time.Millisecond

// isFull notes that too many calls wait at a limit of a line. It returns the error of calls that must not wait
// there.
func (e *Engine) isFull(l *line, limit *wire.Limit, turn, now time.Time) error {
	err := e.cfg.Errors.Full(limit, turn)
	if e.refusals.full == nil || len(e.refusals.full) >= mostMissed {
		e.refusals.full = map[key]full{}
	}
	e.refusals.full[l.need.key()] = full{err, now.Add(fullFor)}
	return err
}

// fresh reports whether the forecast still says when a turn is, and by how much it may be wrong. hears says
// whether the process receives news.
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
	// If several forecasts come together, the first one is the forecast for a new call.
	if m := e.missed[of]; now.Sub(m.heard) > leastDoubt || turn.Before(m.turn) {
		e.missed[of] = missed{turn, now, limit}
	}
}

// refuseFull fails a new call whose queue was full a moment ago. It reports whether it did.
func (e *Engine) refuseFull(c *Call, now time.Time) bool {
	if c.Need.ID != "" || c.Need.Now || e.outage != nil { // a call with an ID may have its place already
		return false
	}
	of := c.Need.key()
	f, ok := e.refusals.full[of]
	if ok && now.Before(f.until) {
		e.refuse(c, f.err)
		return true
	}
	if ok { // this call finds out for the others
		f.until = now.Add(fullFor)
		e.refusals.full[of] = f
	}
	return false
}

// turnAway fails a new call whose turn would come too late, as the forecast for another call said a moment ago.
// It reports whether it did.
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
	if !fresh {
		delete(e.missed, of)
		return false
	}
	if !m.turn.Add(-doubt).After(c.Deadline) {
		return false
	}
	e.refuse(c, e.cfg.Errors.Missed(m.turn, c.Deadline, m.limit))
	return true
}

// forgetMissed notes that turns of a limit may come earlier than forecast.
func (e *Engine) forgetMissed() { e.missed, e.refusals.full = nil, nil }
