// Package queue holds the calls of one process that wait for the same permits of the same
// limits. They are interchangeable: a turn is for the first that waits, and the process's
// last place is what leaves Redis when somebody gives up. It does no I/O and has no clock;
// whoever uses it has a lock around it.
package queue

import (
	"slices"
	"time"
)

// Turn is permits that were spent, and when they may be used.
type Turn struct {
	Due     time.Time // from here …
	Until   time.Time // … until here
	Process string    // that it was given to; empty: Redis knows nothing of it
	Number  int64     // of the call that it was given to, in Redis
	Tags    []int64   // of that call, by limit; nil: it never had a place

	Given  int64         // Redis's time, in micros: stands for the tags of one without
	Moment int64         // Due by Redis's clock, in micros …
	Early  time.Duration // … before which Due is by less than that
	Ask    string        // that it was given to: process and serial
	Way    time.Duration // that its reply took from Redis
	Permit int64         // how many permits of the first limit that ask had been given with this turn
	Alone  bool          // that ask was given no other turn, at any limit of this one
	Spent  *int64        // how many of those permits were used at the least
	Out    *int64        // how many permits that ask was given, and did not go back

	Later   bool // it was given ahead: its call has to wait
	Placed  bool // its call had a place before …
	Slowest int  // … where it waited at that limit, as was heard last

	Pace   float64       // of one that a process gives itself: permits per second of its share; 0: of none
	Used   time.Time     // when its call found it usable, and used it …
	Waited time.Duration // … for which it had waited so long; 0: it had it at once
}

// Place is a call that waits in Redis.
type Place struct {
	Number  int64
	Tags    []int64 // by limit
	Back    string  // the ask whose turn goes back when it asks next; empty: none
	Slowest int     // the limit that it waits at

	forecast time.Time // when it could have its turn …
	heard    time.Time // … as was heard then
	asked    bool      // it is being asked for …
	tells    bool      // … so that others hear how far their turns are
	early    bool      // it was asked for within the lead, and not given a turn
	soon     bool      // it is to ask at once: its forecast may be wrong
	far      bool      // it was asked for though its turn seemed to be farther off than turns are given
}

// Spend notes that the turn is used.
func (t *Turn) Spend() {
	if t.Spent != nil { // Redis knows of it
		*t.Spent = max(*t.Spent, t.Permit)
	}
}

// GoBack reports whether the turn, of so many permits, may go back, and notes that it does. That
// takes those with it that the same ask was given later: so none of them may have been used, nor
// be out, as somebody else may use it yet.
func (t *Turn) GoBack(cost int64) bool {
	if t.Ask == "" || *t.Spent >= t.Permit || *t.Out > t.Permit {
		return false
	}
	*t.Out = t.Permit - cost
	return true
}

// Call is a call that waits in this process.
type Call struct {
	Deadline time.Time // zero: none
	Held     bool      // perhaps nobody waits for it: it uses no turn by itself, and hears of its place
	Wake     chan Event
	joined   time.Time // the queue

	turn  *Turn // that it has not used yet
	own   Turn  // that it was given when it was due
	over  *Turn // the same of one that was forgotten
	ended bool
}

// Event is what a call is woken for.
type Event struct {
	Turn   *Turn     // that is used: it may be made now …
	Err    error     // … or will never be …
	Booked time.Time // … or is to come back for its turn; none: its turn has changed, see Queue.TurnOf
}

// Waited is for how long a call has waited since it joined the queue.
func (c *Call) Waited(now time.Time) time.Duration { return max(time.Nanosecond, now.Sub(c.joined)) }

// Uses notes that the call uses a turn.
func (c *Call) Uses(t *Turn, now time.Time) {
	t.Used, t.Waited = now, 0
	if t.Later || t.Placed {
		t.Waited = c.Waited(now)
	}
}

// NewCall returns a call that is in no queue yet.
func NewCall() *Call { return &Call{Wake: make(chan Event, 1)} }

// Reset makes a call that has ended ready for another queue.
func (c *Call) Reset(deadline time.Time) { c.Deadline, c.turn, c.ended = deadline, nil, false }

// Ended reports whether the call waits no longer: it has used its turn, is booked, or has failed.
func (c *Call) Ended() bool { return c.ended }

// Heard takes what the call was told and has not heard; the zero Event: nothing.
func (c *Call) Heard() (e Event) {
	select {
	case e = <-c.Wake:
	default:
	}
	return e
}

// Tell wakes the call; what it was told before and has not heard is no longer so.
func (c *Call) Tell(e Event) {
	c.Heard()
	c.Wake <- e
}

// end ends the wait of a call.
func (c *Call) end(e Event) {
	c.ended, c.turn = true, nil
	c.Tell(e)
}

// Queue holds calls that wait for the same permits.
type Queue struct {
	Limits int    // that a call needs
	Slots  []bool // which of them are of slots, which turns hold until Done; nil: none

	// Missed is the error of a call whose turn comes too late, and waits at a limit; -1: that is
	// not known.
	Missed func(turn, deadline time.Time, slowest int) error

	waiting []*Call   // have no turn, first come, first served
	given   []*Call   // have a turn that they have not used, the earliest first
	places  []*Place  // in Redis, by tag
	asked   int       // calls that were asked for and have neither place nor turn
	gathers time.Time // until when those that were not asked for may wait for others; zero: not at all
	stale   int       // forecasts for so many of those may be wrong
	unused  []*Turn   // that nobody here needs
	done    []*Turn   // whose slots are held no longer
}

// Join lets a call wait behind all others. A turn that somebody has just left is for it.
func (q *Queue) Join(c *Call, now time.Time) {
	c.joined = now
	if q.fresh() == 0 {
		q.gather(now)
	}
	if !c.Deadline.IsZero() && c.Deadline.Before(q.gathers) { // it is to hear in time that it is too late
		q.gathers = time.Time{}
	}
	q.waiting = append(q.waiting, c)
	if i := slices.IndexFunc(q.unused, func(t *Turn) bool { return now.Before(t.Until) }); i >= 0 && len(q.waiting) == 1 {
		t := q.unused[i]
		q.unused = slices.Delete(q.unused, i, i+1)
		q.Give(t, now)
	}
	// A place that somebody has just left is for it, too, if that is not too late for it.
	if n := len(q.waiting); n > 0 && n <= len(q.places) {
		switch last := q.waiting[n-1]; {
		case q.misses(last, q.places[n-1].forecast, q.places[n-1].Slowest):
			q.waiting = q.waiting[:n-1]
		case last.Held:
			last.Tell(Event{})
		}
	}
}

// Give gives a turn to the first call that waits, and whose deadline it meets. A turn that
// is due is used by that. A turn that nobody needs is kept for Unused. It keeps a copy.
func (q *Queue) Give(t *Turn, now time.Time) {
	for len(q.waiting) > 0 && q.misses(q.waiting[0], t.Due, -1) {
		q.pop()
	}
	if len(q.waiting) == 0 {
		q.unused = append(q.unused, t.kept())
		return
	}
	c := q.pop()
	if !t.Due.After(now) && !c.Held {
		t.Spend()
		c.own = *t
		c.end(Event{Turn: &c.own})
		return
	}
	c.turn = t.kept()
	i := len(q.given)
	for i > 0 && q.given[i-1].turn.Due.After(t.Due) {
		i--
	}
	q.given = slices.Insert(q.given, i, c)
	c.Tell(Event{})
}

func (t *Turn) kept() *Turn {
	kept := new(Turn)
	*kept = *t
	return kept
}

// pop takes the first call that waits off.
func (q *Queue) pop() *Call {
	c := q.waiting[0]
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	return c
}

// misses ends the wait of a call whose turn would come after its deadline, and reports
// whether it did.
func (q *Queue) misses(c *Call, turn time.Time, slowest int) bool {
	if c.Deadline.IsZero() || !turn.After(c.Deadline) || q.atSlot(slowest) { // nobody knows when a slot is free
		return false
	}
	c.end(Event{Err: q.Missed(turn, c.Deadline, slowest)})
	return true
}

// TurnOf is the turn of a call that has not used it; nil: it has none, or has ended.
func (q *Queue) TurnOf(c *Call) *Turn { return c.turn }

// Expired is the turn of a call that Expire has ended.
func (q *Queue) Expired(c *Call) *Turn { return c.over }

// Use ends the wait of a call that has a turn. It reports false if that is not the call's
// turn any more.
func (q *Queue) Use(c *Call, t *Turn) bool {
	if c.turn != t || t == nil {
		return false
	}
	t.Spend()
	q.drop(c)
	c.ended, c.turn = true, nil
	return true
}

// drop takes a call off those that have a turn.
func (q *Queue) drop(c *Call) int {
	i := slices.Index(q.given, c)
	q.given = slices.Delete(q.given, i, i+1)
	return i
}

// Return lets a call wait again, first of all, whose turn was not used in time. It asks with
// its tag; the turn goes back if it was the last. One of many that found nobody waiting has no
// tag, and asks as a new one: they may be thousands.
func (q *Queue) Return(c *Call, t *Turn, now time.Time) {
	if c.turn != nil {
		q.drop(c)
	}
	switch {
	case q.Slots != nil && t.Process != "":
		q.again(c, t, "", now)
	case t.Alone:
		q.again(c, t, t.Ask, now)
	case t.Tags != nil:
		q.again(c, t, "", now)
	default:
		c.turn, c.over, c.ended = nil, nil, false
		q.waiting = slices.Insert(q.waiting, 0, c)
	}
}

// again lets a call wait, first of all, with the place of a turn that it does not have.
func (q *Queue) again(c *Call, t *Turn, back string, now time.Time) {
	c.turn, c.over, c.ended = nil, nil, false
	q.waiting = slices.Insert(q.waiting, 0, c)
	tags := t.Tags
	if tags == nil {
		tags = slices.Repeat([]int64{t.Given}, q.Limits)
	}
	q.insert(&Place{Number: t.Number, Tags: tags, Back: back, forecast: now})
}

// Expire ends the calls that nobody waits for, and whose turns were over for so long. Slots are
// for others as soon as they are.
func (q *Queue) Expire(now time.Time, kept time.Duration) {
	if q.Slots != nil {
		kept = 0
	}
	q.given = slices.DeleteFunc(q.given, func(c *Call) bool {
		over := c.Held && now.Sub(c.turn.Until) > kept
		if over {
			if q.Slots != nil {
				q.Done(c.turn)
			}
			c.ended, c.over, c.turn = true, c.turn, nil
		}
		return over
	})
}

// Unneeded takes a turn in that was used for nothing.
func (q *Queue) Unneeded(t *Turn) { q.unused = append(q.unused, t) }

// Void takes back turns that were not used: their calls ask again, first of all, with their tags. It
// returns how many. Turns that Redis knows nothing of stay.
func (q *Queue) Void(which func(*Turn) bool, now time.Time) (voided int) {
	void := func(t *Turn) bool { return t.Process != "" && which(t) }
	for i, c := range slices.Backward(q.given) {
		if void(c.turn) {
			q.given = slices.Delete(q.given, i, i+1)
			q.again(c, c.turn, "", now)
			c.Tell(Event{})
			voided++
		}
	}
	q.unused = slices.DeleteFunc(q.unused, func(t *Turn) bool {
		if void(t) && q.Slots != nil {
			q.Done(t)
		}
		return void(t)
	})
	return voided
}

// Change lets turns that were not used be others, as far as it says so: their calls are told.
func (q *Queue) Change(change func(*Turn) bool) {
	for _, c := range q.given {
		if t := c.turn.kept(); change(t) {
			c.turn = t
			c.Tell(Event{})
		}
	}
	for _, t := range q.unused {
		change(t)
	}
}

// Leave lets a call go that gives up: its turn, or its place, is for the next one. It
// reports false if its wait is over.
func (q *Queue) Leave(c *Call, now time.Time) bool {
	if c.ended {
		return false
	}
	if c.turn == nil {
		i := slices.Index(q.waiting, c)
		q.waiting = slices.Delete(q.waiting, i, i+1)
		c.ended = true
		q.tellLast()
		return true
	}
	t := c.turn
	for _, next := range q.given[q.drop(c):] { // each has the turn of the one before it
		t, next.turn = next.turn, t
		next.Tell(Event{})
	}
	c.ended, c.turn = true, nil
	q.Give(t, now)
	return true
}

// Fail ends all waits but of those that have a turn.
func (q *Queue) Fail(err error) {
	for _, c := range q.waiting {
		c.end(Event{Err: err})
	}
	q.waiting = nil
}

// Forecast is when a call could have its turn, and the limit that holds it back most; false:
// that is not known.
func (q *Queue) Forecast(c *Call) (moment time.Time, slowest int, known bool) {
	if i := slices.Index(q.waiting, c); i >= 0 && i < len(q.places) {
		return q.places[i].forecast, q.places[i].Slowest, true
	}
	return time.Time{}, 0, false
}

// Waiting is how many calls wait without a turn.
func (q *Queue) Waiting() int { return len(q.waiting) }

// Calls is how many calls have not used a turn.
func (q *Queue) Calls() int { return len(q.waiting) + len(q.given) }

// Oldest is when the first of those that have no turn joined, and zero where there is none.
func (q *Queue) Oldest() time.Time {
	if len(q.waiting) == 0 {
		return time.Time{}
	}
	return q.waiting[0].joined
}

// HeldBy is which limit holds the first place back; -1: there is none.
func (q *Queue) HeldBy() int {
	if len(q.places) == 0 {
		return -1
	}
	return q.places[0].Slowest
}

// Loose reports whether there are places or turns that nobody here needs.
func (q *Queue) Loose() bool {
	return len(q.unused)+len(q.done) > 0 || len(q.places)+q.asked > len(q.waiting) && slices.ContainsFunc(q.places, func(p *Place) bool { return !p.asked })
}

// Idle reports whether nothing is left to do or to know.
func (q *Queue) Idle() bool {
	return len(q.waiting)+len(q.given)+len(q.places)+q.asked+len(q.unused)+len(q.done) == 0
}
