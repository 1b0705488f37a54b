package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
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
	c.state, c.turn = Waiting, nil
	c.over.Store(false)
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

// Part is permits of one limit.
type Part struct {
	Limit *wire.Limit
	Cost  int64
}

// Need is what a call needs: the same for all calls of a line.
type Need struct {
	Part           // of one limit …
	More    []Part // … and of others
	Settles bool   // What the call really costs is told later.
	Now     bool   // The call does not wait.
	Flow    wire.Flow

	// ID names a booking: a call that may be made by another process. Empty: the call has none. A call
	// with an ID whose turn is farther away than its Patience is booked, and does not wait here.
	ID       string
	Patience time.Duration
	number   int64 // It tells calls with IDs apart.
}

// forever is the patience of a call that waits in its process whatever happens.
const forever = 100 * 365 * 24 * time.Hour

// Parts are all parts, in order.
func (n *Need) Parts() []Part { return append([]Part{n.Part}, n.More...) }

// each calls f for all parts.
func (n *Need) each(f func(Part)) {
	f(n.Part)
	for _, p := range n.More {
		f(p)
	}
}

// any reports whether f is true of a limit of the need.
func (n *Need) any(f func(*wire.Limit) bool) bool {
	return f(n.Limit) || slices.ContainsFunc(n.More, func(p Part) bool { return f(p.Limit) })
}

// hasSlots reports whether one of its limits is of slots.
func (n *Need) hasSlots() bool { return n.any((*wire.Limit).HasSlots) }

// ended reports whether a limit of the need belongs to a name that has ended.
func (n *Need) ended() bool {
	return n.Limit.Name.Ended.Load() || len(n.More) > 0 && n.any(func(l *wire.Limit) bool { return l.Name.Ended.Load() })
}

// leases reports whether permits of it may be taken ahead.
func (n *Need) leases() bool {
	return n.Limit.Paced() && len(n.More) == 0 && !n.Settles && n.ID == ""
}

// doing is what a call holds slots for, as others see it.
func (n *Need) doing() string {
	if n.ID != "" {
		return n.ID
	}
	return n.Flow.Name
}

// limitsOf returns the limits of a call, each once.
func limitsOf(parts []Part) (limits []*wire.Limit) {
	for _, p := range parts {
		if !slices.Contains(limits, p.Limit) {
			limits = append(limits, p.Limit)
		}
	}
	return limits
}

// key tells lines apart.
type key struct {
	first        Part
	more         string
	settles, now bool
	number       int64
	flow         wire.Flow
}

func (n *Need) key() key {
	k := key{n.Part, "", n.Settles, n.Now, n.number, n.Flow}
	if len(n.More) > 0 {
		var b strings.Builder
		for _, p := range n.More {
			fmt.Fprintf(&b, "%p %d ", p.Limit, p.Cost)
		}
		k.more = b.String()
	}
	return k
}

// Turn is permits that were spent, and when they may be used.
type Turn struct {
	Due     time.Time // The turn may be used from here …
	Until   time.Time // … until here.
	Process string    // The process that Redis gave it to. Empty: Redis knows nothing of it.
	Number  int64     // In Redis, the number of the call that it was given to.
	Tags    []int64   // The tags of that call, by limit. Nil: it never had a place.

	Given  int64         // When Redis gave it, in micros of Redis. It stands for the tags of a call without any.
	Moment int64         // Due by Redis's clock, in micros.
	Early  time.Duration // Due is at most this much before Moment.
	Ask    string        // The ask that it was given to: process and serial.
	Way    time.Duration // How long its reply took from Redis.

	// How many permits of the first limit that ask had been given with this turn, how many of those
	// were used at the least, and how many that ask was given and did not give back. Alone: that
	// ask was given no other turn, at any limit of this one.
	Permit     int64
	spent, out *int64
	Alone      bool
	stays      bool // It cannot go back: the next call has it, if one comes in time.

	Later   bool // It was given ahead: its call has to wait.
	Placed  bool // Its call had a place before …
	Slowest int  // … at the limit of that index, by the last reply.

	Pace   float64       // Of a turn that a process gives itself: permits per second of its share. 0: it has no share.
	Used   time.Time     // When its call used it.
	Waited time.Duration // For how long its call waited. 0: it had its turn at once.
}

// spend notes that the turn is used.
func (t *Turn) spend() {
	if t.spent != nil { // Redis knows of it
		*t.spent = max(*t.spent, t.Permit)
	}
}

// goBack reports whether the turn, of so many permits, may go back, and notes that it does. Turns
// that the same ask was given later go back with it. So none of them may have been used, nor be
// out, as another call may use it yet.
func (t *Turn) goBack(cost int64) bool {
	if t.Ask == "" || *t.spent >= t.Permit || *t.out > t.Permit {
		return false
	}
	*t.out = t.Permit - cost
	return true
}

// kept is a copy.
func (t *Turn) kept() *Turn {
	kept := new(Turn)
	*kept = *t
	return kept
}

// shorten lets the turn be used until a moment at the most, or when it is due. It reports whether
// that is less long than before.
func (t *Turn) shorten(until time.Time) bool {
	until = later(until, t.Due.Add(Tolerance))
	if !until.Before(t.Until) {
		return false
	}
	t.Until = until
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
