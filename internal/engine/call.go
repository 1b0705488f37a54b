package engine

import (
	"sync/atomic"
	"time"
)

// State is how far a call is.
type State int

// The states of a call: see the page of the package.
const (
	Waiting State = iota
	Given         // It has a turn that it has not used.
	Used          // It has used its turn.
	Booked        // It does not wait here: its turn is too far away.
	Back          // It was put back under its ID: another call comes for it.
	Expired       // Nobody has used its turn, which was over long ago.
	Failed        // Err says why.
	Gone          // It gave up.
)

// Call is one call of this process, from when it joins until it is over, and for as long as it holds
// slots.
//
// All fields below Held are the engine's until the call is over. Then they are the caller's alone,
// until the call joins again.
type Call struct {
	Need     Need
	Deadline time.Time // The call refuses a turn after the deadline. Zero: it has none.

	// Held is true of a call that somebody may wait for later. It uses no turn by itself, and is woken when it
	// has a place.
	Held bool

	line   *line // of which it is a call; nil: the engine has not taken it in
	state  State
	joined time.Time
	turn   *Turn // Of a call that is given, used or expired.
	own    Turn  // The turn of a call that was given it when it was due.
	err    error // Of a call that has failed, until somebody was told.

	due     time.Time // When its turn comes, as far as is known.
	slowest int       // The index of the limit that holds it back most.

	slots *slots // that it holds; nil: none

	over atomic.Bool   // The engine does not touch the call any more.
	wake chan struct{} // It has room for one signal, which means only: look at the call.
}

// NewCall returns a call that has not joined yet.
func NewCall(need Need) *Call { return &Call{Need: need, wake: make(chan struct{}, 1)} }

// reset makes a call that is over ready to join, for a need.
func (c *Call) reset(need Need, deadline time.Time) {
	c.Need, c.Deadline, c.line, c.err = need, deadline, nil, nil
	c.waits()
}

// waits lets the call wait again.
func (c *Call) waits() {
	c.state, c.turn = Waiting, nil
	c.over.Store(false)
}

// has gives the call a turn.
func (c *Call) has(t *Turn) { c.state, c.turn, c.due = Given, t, t.Due }

// end ends the wait of the call: it is the caller's from now on.
func (c *Call) end(s State) {
	c.state = s
	c.over.Store(true)
}

// signal wakes whoever waits for the call.
func (c *Call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// waited is for how long the call has waited since it joined.
func (c *Call) waited(now time.Time) time.Duration { return max(time.Nanosecond, now.Sub(c.joined)) }

// uses notes that the call uses its turn.
func (c *Call) uses(now time.Time) {
	t := c.turn
	t.Used, t.Waited = now, 0
	if t.Later || t.Placed {
		t.Waited = c.waited(now)
	}
}

// look brings due and slowest up to date.
func (c *Call) look() {
	if c.state == Waiting && c.line != nil {
		if moment, slowest, known := c.line.forecast(c); known {
			c.due, c.slowest = moment, slowest
		}
	}
}
