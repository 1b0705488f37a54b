package engine

import (
	"slices"
	"time"
)

// line is the calls of this process that need the same permits of the same limits, first come,
// first served. They are interchangeable: a turn is for the first that waits, and the last place of
// the line is what leaves Redis when one gives up.
//
// Invariants, which check tests after each step:
//
//   - A call of waiting waits, and a call of given has a turn. Each call is in one of them, once.
//   - given is in the order of turns, and places are in the order of the tags at the limits where they wait.
//   - The call at an index of waiting has the place at that index. Of the calls behind those,
//     asked are being asked for, and the others are fresh.
//   - asked is the number of new calls in batches that are under way, and a place is asking if and only if a
//     batch that is under way has it.
//   - A line that is neither queued, away nor returning has an alarm for the next moment at which it
//     has something to ask for.
type line struct {
	engine *Engine
	key    key
	need   Need
	parts  []Part
	one    [1]Part // room for parts, as most often there is one
	slots  []bool  // Which of its limits are of slots. Nil: none.

	waiting []*Call  // They have no turn.
	given   []*Call  // They have a turn that they have not used.
	places  []*place // In Redis.
	asked   int      // How many new calls are being asked for.
	stale   int      // For so many of those the answers may be older than the news.
	unused  []*Turn  // Turns that no call of the line needs. They go back, or stay for calls that come.
	done    []*Turn  // Turns that hold their slots no longer. Without a process: of calls that may have a place still.

	gathers time.Time     // Until when fresh calls wait for others. Zero: they do not.
	pace    float64       // Of its paced limit, when its forecasts were told. 0: it is not known.
	late    time.Duration // The way of the reply whose turn was over when it came to be used. 0: none was.
	books   bool          // Calls that leave are booked under the ID …
	unsure  bool          // … and are not expected back.

	listed    bool // The engine has it …
	index     int  // … at this index of those in use.
	touched   bool // It has changed since it was planned.
	came      bool // A call has joined since then.
	queued    bool // It is among the lines that ask next.
	returning int  // How many batches under way return places and turns of it.
	followed  bool // It has waited for permits that others were returning.
	alarm     alarm
}

// touch notes that the line changes: it is planned anew.
func (l *line) touch() {
	if !l.touched {
		l.touched = true
		l.engine.touched = append(l.engine.touched, l)
	}
}

// join lets a call wait behind all others. A turn or a place that somebody has just left is for it.
func (l *line) join(c *Call, now time.Time) {
	l.touch()
	l.came = true
	c.line, c.joined = l, now
	if l.fresh() == 0 {
		if l.gathers = (time.Time{}); len(l.places) > 0 {
			l.gather(now)
		}
	}
	if !c.Deadline.IsZero() && c.Deadline.Before(l.gathers) { // it is to hear in time that it is too late
		l.gathers = time.Time{}
	}
	l.waiting = append(l.waiting, c)
	if len(l.unused) > 0 && len(l.waiting) == 1 {
		if i := slices.IndexFunc(l.unused, func(t *Turn) bool { return now.Before(t.Until) }); i >= 0 {
			t := l.unused[i]
			l.unused = slices.Delete(l.unused, i, i+1)
			l.give(t, now)
		}
	}
	if n := len(l.waiting); n > 0 && n <= len(l.places) {
		switch last := l.waiting[n-1]; {
		case l.misses(last, l.places[n-1].forecast, l.places[n-1].limit, now):
			l.waiting = l.waiting[:n-1]
		case last.Held:
			l.wake(last)
		}
	}
}

// give gives a turn to the first call that waits and whose deadline it meets. A turn that no call needs goes
// back.
func (l *line) give(t *Turn, now time.Time) {
	l.touch()
	for len(l.waiting) > 0 && !l.waiting[0].Deadline.IsZero() && l.misses(l.waiting[0], t.Due, -1, now) {
		l.pop()
	}
	if len(l.waiting) == 0 {
		l.unused = append(l.unused, t.kept())
		return
	}
	l.hand(l.pop(), t, now)
}

// hand gives a call a copy of a turn. A turn that is due is used at once.
func (l *line) hand(c *Call, t *Turn, now time.Time) {
	l.touch()
	if !t.Due.After(now) && !c.Held {
		t.spend()
		c.own = *t
		c.has(&c.own)
		l.end(c, Used)
		return
	}
	c.has(t.kept())
	i := len(l.given)
	for i > 0 && l.given[i-1].turn.Due.After(t.Due) {
		i--
	}
	l.given = slices.Insert(l.given, i, c)
	l.wake(c)
}

// pop takes the first call that waits off.
func (l *line) pop() *Call {
	return behead(&l.waiting)
}

// behead takes the first one off. The room of the last one is kept for those that come.
func behead[T any](of *[]T) (first T) {
	all := *of
	first, all[0] = all[0], first
	if len(all) == 1 {
		*of = all[:0]
	} else {
		*of = all[1:]
	}
	return first
}

func (l *line) wake(c *Call) { l.engine.ready.Wake = append(l.engine.ready.Wake, c) }

// end ends the wait of a call.
func (l *line) end(c *Call, s State) {
	c.end(s)
	l.wake(c)
}

func (l *line) fail(c *Call, err error) {
	c.err, c.turn = err, nil
	l.end(c, Failed)
}

// misses ends the wait of a call whose turn would come after its deadline, and reports whether it
// did. The turn is at the limit of an index; below 0: it is not known at which.
func (l *line) misses(c *Call, turn time.Time, limit int, now time.Time) bool {
	if c.Deadline.IsZero() || !turn.After(c.Deadline) || l.atSlots(limit) { // nobody knows when a slot is free
		return false
	}
	l.engine.remember(l.key, turn, limit, now)
	l.fail(c, l.engine.cfg.Errors.Missed(turn, c.Deadline, limit))
	return true
}

// use lets a call use its turn.
func (l *line) use(c *Call, now time.Time) {
	c.turn.spend()
	l.drop(c)
	c.uses(now)
	c.end(Used)
	if l.idle() {
		l.touch()
	}
}

// drop takes a call off those that have a turn, and returns where it was.
func (l *line) drop(c *Call) int {
	i := slices.Index(l.given, c)
	l.given = slices.Delete(l.given, i, i+1)
	return i
}

// again lets a call wait again, first of all, whose turn was not used in time. It asks with its tag,
// and the turn goes back if it was the last one. A call of many that found nobody waiting has no tag,
// and asks as a new one: there may be thousands.
func (l *line) again(c *Call, t *Turn, now time.Time) {
	switch {
	case l.slots != nil && t.Process != "":
		l.first(c, t, "", now)
	case t.Alone:
		l.first(c, t, t.Ask, now)
	case t.Tags != nil:
		l.first(c, t, "", now)
	default:
		l.touch()
		c.waits()
		l.waiting = slices.Insert(l.waiting, 0, c)
	}
}

// first lets a call wait, first of all, with the place of a turn that it does not have any more. The
// turns of the ask named back go back when it asks.
func (l *line) first(c *Call, t *Turn, back string, now time.Time) {
	l.touch()
	c.waits()
	l.waiting = slices.Insert(l.waiting, 0, c)
	l.insert(&place{number: t.Number, tags: l.tagsOf(t), back: back, since: now, forecast: now})
}

// tagsOf are the tags of the call of a turn.
func (l *line) tagsOf(t *Turn) []int64 {
	if t.Tags != nil {
		return t.Tags
	}
	return slices.Repeat([]int64{t.Given}, len(l.parts))
}

// expire ends the calls that nobody waits for, and whose turns were over for so long. Slots are for
// others as soon as the turn is over.
func (l *line) expire(now time.Time, kept time.Duration) {
	if l.slots != nil {
		kept = 0
	}
	l.given = slices.DeleteFunc(l.given, func(c *Call) bool {
		over := c.Held && now.Sub(c.turn.Until) > kept
		if over {
			l.touch()
			if l.slots != nil {
				l.done = append(l.done, c.turn)
			}
			c.end(Expired)
		}
		return over
	})
}

// leave lets a call go that gives up: its turn, or its place, is for the next one. It reports
// false if the call is over.
func (l *line) leave(c *Call, now time.Time) bool {
	if c.over.Load() {
		return false
	}
	l.touch()
	if c.state == Waiting {
		i := slices.Index(l.waiting, c)
		l.waiting = slices.Delete(l.waiting, i, i+1)
		c.end(Gone)
		l.wakeLast()
		return true
	}
	t := c.turn
	at := l.drop(c)
	for _, next := range l.given[at:] { // each has the turn of the one before it
		left := next.turn
		next.has(t)
		t = left
		l.wake(next)
	}
	c.turn = nil
	c.end(Gone)
	l.give(t, now)
	return true
}

// failAll ends all waits but of those that have a turn.
func (l *line) failAll(err error) {
	if len(l.waiting) == 0 {
		return
	}
	l.touch()
	for _, c := range l.waiting {
		l.fail(c, err)
	}
	l.waiting = nil
}

// calls is how many calls have not used a turn.
func (l *line) calls() int { return len(l.waiting) + len(l.given) }

// oldest is when the first of those that have no turn joined; zero: there is none.
func (l *line) oldest() time.Time {
	if len(l.waiting) == 0 {
		return time.Time{}
	}
	return l.waiting[0].joined
}

// atSlots reports whether the limit of an index is of slots.
func (l *line) atSlots(limit int) bool { return limit >= 0 && limit < len(l.slots) && l.slots[limit] }

// spare reports whether there are places or turns that no call of the line needs.
func (l *line) spare() bool {
	return len(l.done) > 0 || slices.ContainsFunc(l.unused, func(t *Turn) bool { return !t.stays }) ||
		len(l.places) > len(l.waiting) && slices.ContainsFunc(l.places, func(p *place) bool { return !p.asking })
}

// idle reports whether nothing is left to do or to know.
func (l *line) idle() bool {
	return len(l.waiting)+len(l.given)+len(l.places)+l.asked+len(l.done)+l.returning == 0 && !l.spare()
}

// due is when the line has something to ask for; false: not as things stand. The zero time is now.
func (l *line) due(t *times) (when time.Time, ok bool) {
	if l.spare() {
		return time.Time{}, true
	}
	return l.asksAt(t)
}

// isDue queues the line: its alarm rings.
func (l *line) isDue(e *Engine, _ time.Time) { l.touch() }
