package engine

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// State is how far a call has come.
type State int

// The states of a call: see the documentation of the package.
const (
	Waiting State = iota
	Given         // It has a turn that it has not used.
	Used          // It has used its turn.
	Booked        // It does not wait in this process: its turn is too far away.
	Back          // Its holder has put it back under its ID, for another call.
	Expired       // Its turn has expired, and nobody used it.
	Failed        // Its err says why.
	Gone          // It gave up, or was cancelled.
)

// Call is one call of this process, from when it joins until it is over, and for as long as it holds slots.
//
// All fields below Held belong to the engine until the call is over. Then they belong to the caller alone,
// until the call joins again.
type Call struct {
	Need     Need
	Deadline time.Time // The call refuses a turn after the deadline. Zero: it has none.

	// Held says that a caller may wait for the call later. A held call does not use a turn by itself, and is
	// woken when it has a place.
	Held bool

	line   *line // The line that it has joined. Nil: it has joined none yet.
	state  State
	joined time.Time
	turn   *Turn // The turn of a call that is given, used or expired.
	own    *Turn // Room for a turn that the call uses as soon as it is given. Nil: it has had no such turn yet.
	err    error // The error of a failed call, until a caller has received it.

	due     time.Time // When its turn comes, as far as is known.
	slowest int       // The index of the limit that delays it most.

	slots *slots // The slots that it holds. Nil: it holds none.

	over atomic.Bool   // The engine does not touch the call any more.
	wake chan struct{} // It has room for one signal, which only says that the call has changed.
}

// NewCall returns a call that has not joined yet.
func NewCall(need Need) *Call { return &Call{Need: need, wake: make(chan struct{}, 1)} }

// reset prepares a call that is over for joining again, with a need.
func (c *Call) reset(need Need, deadline time.Time) {
	c.Need, c.Deadline, c.line, c.err = need, deadline, nil, nil
	c.state, c.turn = Waiting, nil
	c.over.Store(false)
}

// waits makes the call wait again.
func (c *Call) waits() {
	c.state, c.turn = Waiting, nil
	c.over.Store(false)
}

// has gives the call a turn.
func (c *Call) has(t *Turn) { c.state, c.turn, c.due = Given, t, t.Due }

// end ends the wait of the call. From now on the call belongs to its caller.
func (c *Call) end(s State) {
	c.state = s
	c.over.Store(true)
}

// signal wakes the goroutine that waits for the call.
func (c *Call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// waited is how long the call has waited since it joined.
func (c *Call) waited(now time.Time) time.Duration { return max(time.Nanosecond, now.Sub(c.joined)) }

// uses notes that the call uses its turn.
func (c *Call) uses(now time.Time) {
	t := c.turn
	t.Used, t.Waited = now, 0
	if t.Later || t.Placed {
		t.Waited = c.waited(now)
	}
}

// look updates due and slowest from the forecast of the call.
func (c *Call) look() {
	if c.state == Waiting && c.line != nil {
		if moment, slowest, known := c.line.forecast(c); known {
			c.due, c.slowest = moment, slowest
		}
	}
}

// Part is the permits that a call needs of one limit.
type Part struct {
	Limit *wire.Limit
	Cost  int64
}

// Need is what a call needs. All calls of a line have the same need.
type Need struct {
	Part           // The permits of the first limit …
	More    []Part // … and of the others.
	Settles bool   // The caller settles the real cost after the call.
	Now     bool   // The call does not wait.
	Stays   bool   // It keeps its place when a limit is stopped.
	Leaves  bool   // It has an ID, and loses its place all the same when a limit is stopped.
	Flow    wire.Flow

	// ID names a booking: another process may make the call. Empty: the call has none. A call with an ID whose
	// turn is farther away than its Patience is booked, and does not wait here.
	ID       string
	Patience time.Duration
	number   int64 // It distinguishes calls with IDs.
}

// forever is the patience of a call that waits in its process however far away its turn is.
const forever = 100 * 365 * 24 * time.Hour

// Parts returns all parts, in order.
func (n *Need) Parts() []Part { return append([]Part{n.Part}, n.More...) }

// each calls f for all parts.
func (n *Need) each(f func(Part)) {
	f(n.Part)
	for _, p := range n.More {
		f(p)
	}
}

// any reports whether f is true for a limit of the need.
func (n *Need) any(f func(*wire.Limit) bool) bool {
	return f(n.Limit) || slices.ContainsFunc(n.More, func(p Part) bool { return f(p.Limit) })
}

// hasSlots reports whether one of its limits has slots.
func (n *Need) hasSlots() bool { return n.any((*wire.Limit).HasSlots) }

// ended reports whether a limit of the need belongs to a name that has ended.
func (n *Need) ended() bool {
	return n.Limit.Name.Ended.Load() || len(n.More) > 0 && n.any(func(l *wire.Limit) bool { return l.Name.Ended.Load() })
}

// leases reports whether a process may take permits of it ahead of its calls.
func (n *Need) leases() bool {
	return n.Limit.Paced() && len(n.More) == 0 && !n.Settles && n.ID == ""
}

// Doing is the text that says what a call holds slots for: its ID, or its flow.
func (n *Need) Doing() string {
	if n.ID != "" {
		return n.ID
	}
	return n.Flow.Name
}

// limitsOf returns the limits of some parts, each once.
func limitsOf(parts []Part) (limits []*wire.Limit) {
	for _, p := range parts {
		if !slices.Contains(limits, p.Limit) {
			limits = append(limits, p.Limit)
		}
	}
	return limits
}

// key identifies a line.
type key struct {
	first        Part
	more         string
	settles, now bool
	stays        bool
	number       int64
	flow         wire.Flow
}

func (n *Need) key() key {
	k := key{n.Part, "", n.Settles, n.Now, n.Stays, n.number, n.Flow}
	if len(n.More) > 0 {
		var b strings.Builder
		for _, p := range n.More {
			fmt.Fprintf(&b, "%p %d ", p.Limit, p.Cost)
		}
		k.more = b.String()
	}
	return k
}

// Turn is permits that were spent, and the moments from which and until which they may be used.
type Turn struct {
	Due     time.Time // The turn may be used from this moment on …
	Until   time.Time // … until this moment.
	Process string    // The process that Redis gave it to. Empty: Redis knows nothing of it.
	Number  int64     // The number, in Redis, of the call that it was given to.
	Tags    []int64   // The tags of that call, by limit. Nil: the call never had a place.

	Given  int64         // When Redis gave it, in micros of Redis. It is the tag of a call without tags.
	Moment int64         // Due by Redis's clock, in micros.
	Early  time.Duration // Due is at most this much before Moment.
	Ask    string        // The ask that it was given to: process and serial.
	Way    time.Duration // How long its reply took from Redis.

	// Permit is how many permits of the first limit the ask had been given with this turn. spent is how many of
	// them were used at the least, and out is how many the ask was given and has not returned. Alone says that
	// the ask was given no other turn, at any limit of this turn.
	Permit     int64
	spent, out *int64
	Alone      bool
	stays      bool // It cannot be returned: the next call gets it, if one comes in time.

	Later   bool // Its call has to wait for it, or has waited.
	Placed  bool // Its call had a place before.
	Slowest int  // The index of the limit at which that place waited, by the last reply.

	Pace   float64       // Without Redis: the permits per second of the share. 0: there is no share.
	Used   time.Time     // When its call used it.
	Waited time.Duration // How long its call waited. 0: it had its turn at once.
}

// spend notes that the turn is used.
func (t *Turn) spend() {
	if t.spent != nil { // Redis knows the turn
		*t.spent = max(*t.spent, t.Permit)
	}
}

// goBack reports whether the turn, which has this many permits, may be returned, and notes that it is. Redis
// takes back later turns of the same ask with it. So none of the later turns may have been used, or may still
// be used by a call.
func (t *Turn) goBack(cost int64) bool {
	if !t.canGoBack() {
		return false
	}
	*t.out = t.Permit - cost
	return true
}

func (t *Turn) canGoBack() bool { return t.Ask != "" && *t.spent < t.Permit && *t.out <= t.Permit }

// isBehind reports whether Redis knows the turn, and no turn of its ask was used that has its permits or later ones.
func (t *Turn) isBehind() bool { return t.spent != nil && *t.spent < t.Permit }

// keptUntil returns until when another call may use the turn. Calls may be late by the Tolerance, but no turn is
// kept for that time.
func (t *Turn) keptUntil() time.Time { return t.Until.Add(-Tolerance) }

// kept returns a copy of the turn.
func (t *Turn) kept() *Turn {
	kept := new(Turn)
	*kept = *t
	return kept
}

// shorten makes the turn end at a moment, but not earlier than Tolerance after it is due. It reports whether
// the turn ends earlier than before.
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
