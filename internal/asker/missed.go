package asker

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Callers whose deadline is too short for the queue try again soon, thousands of times a second. As
// long as a forecast is fresh, the process answers them itself.

// missed is a turn that came too late for a call: the forecast of a call at the end of the queue.
type missed struct {
	turn    time.Time
	heard   time.Time // when that was so
	slowest int       // of its limits
}

const (
	// A forecast is fresh for a part of the wait, and for a while at most: for longer where the
	// process hears of all that lets turns come sooner.
	freshPart, surePart       = 16, 8
	longestFresh, longestSure = 500 * time.Millisecond, time.Second

	// doubtPart is which part of its age a forecast may be wrong by where the process does not hear
	// that: a call whose turn would be that little too late asks Redis.
	doubtPart  = 8
	leastDoubt = 10 * time.Millisecond

	mostMissed = 10_000 // kinds and limits of which something is remembered
)

// Margin is by how much the turn of a call is to be before its deadline at the most: else it might be
// lost, where a forecast or a timer is a little off.
const Margin = slop + time.Millisecond

func margin(left time.Duration) time.Duration { return min(slop, max(0, left)/8) }

// fresh reports whether the forecast still says when a turn is, and by how much it may be wrong, if
// the process hears news or not.
func (m *missed) fresh(now time.Time, hears bool) (doubt time.Duration, fresh bool) {
	age, wait := now.Sub(m.heard), m.turn.Sub(m.heard)
	if hears {
		return leastDoubt, age <= min(longestSure, wait/surePart)
	}
	return max(leastDoubt, age/doubtPart), age <= min(longestFresh, wait/freshPart)
}

// missedBy is the error of calls of a kind whose turn comes too late, and remembers that. The Asker
// must be locked.
func (a *Asker) missedBy(of key) func(turn, deadline time.Time, slowest int) error {
	return func(turn, deadline time.Time, slowest int) error {
		if slowest >= 0 {
			if a.missed == nil || len(a.missed) >= mostMissed {
				a.missed = map[key]missed{}
			}
			// Of several that are told together the first one is where a new call would stand.
			if now, m := time.Now(), a.missed[of]; now.Sub(m.heard) > leastDoubt || turn.Before(m.turn) {
				a.missed[of] = missed{turn, now, slowest}
			}
		}
		return a.cfg.Errors.Missed(turn, deadline, slowest)
	}
}

// turnAway ends the wait of a new call, and reports that it did, whose turn would come too late as
// that of another one would a moment ago. The Asker must be locked.
func (a *Asker) turnAway(w *waiter, now time.Time) bool {
	if w.Deadline.IsZero() || w.need.Now || len(a.missed) == 0 || a.away != nil {
		return false
	}
	of := w.need.key()
	m, ok := a.missed[of]
	if !ok {
		return false
	}
	doubt, fresh := m.fresh(now, a.listening && now.Sub(a.heard) <= sure)
	if !fresh || a.movedSince(&w.need, m.heard) {
		delete(a.missed, of)
		return false
	}
	if !m.turn.Add(-doubt).After(w.Deadline) {
		return false
	}
	w.Tell(queue.Event{Err: a.cfg.Errors.Missed(m.turn, w.Deadline, m.slowest)})
	return true
}

// forgetMissed notes that turns of a limit may come earlier than was told; of all limits where it
// has no key. The Asker must be locked.
func (a *Asker) forgetMissed(key string, now time.Time) {
	switch {
	case len(a.missed) == 0:
		a.moved = nil
	case key == "":
		a.missed, a.moved = nil, nil
	default:
		if a.moved == nil || len(a.moved) >= mostMissed {
			clear(a.missed)
			a.moved = map[string]time.Time{}
		}
		a.moved[key] = now
	}
}

// movedSince reports whether turns of a need may come earlier than was told at a moment.
func (a *Asker) movedSince(n *Need, heard time.Time) bool {
	since := func(l *wire.Limit) bool { return !a.moved[l.Keys[0]].Before(heard) }
	if len(a.moved) == 0 {
		return false
	}
	for _, p := range n.More {
		if since(p.Limit) {
			return true
		}
	}
	return since(n.Limit)
}
