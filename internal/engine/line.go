package engine

import (
	"slices"
	"time"
)

// line is the calls of this process that need the same permits of the same limits, first come,
// first served. They are interchangeable: the first waiting call gets the next turn, and when a
// call gives up, the last place of the line leaves Redis.
//
// Tests check these invariants after each step:
//
//   - A call of waiting waits, and a call of given has a turn. Each call is in one of them, once.
//   - given is in the order of turns, and places are in the order of the tags at the limits where they wait.
//   - The call at an index of waiting has the place at that index. Behind these calls come the calls
//     that batches ask for, as many as asked says. All others are fresh.
//   - asked is the number of new calls in batches that are under way. A place is asking if and only if a
//     batch that is under way has it.
//   - Each line has an alarm for the next moment at which it has something to ask for, unless it is queued,
//     its places or turns are returning, or there is an outage.
type line struct {
	engine *Engine
	key    key
	need   Need
	parts  []Part
	one    [1]Part // room for parts, as most often there is one
	slots  []bool  // Says which of its limits have slots. Nil: none has.

	waiting []*Call  // The calls that have no turn.
	given   []*Call  // The calls that have a turn and have not used it.
	places  []*place // The places of the line in Redis.
	asked   int      // How many new calls batches ask for.
	stale   int      // For how many of these the answers may be older than the news …
	news    int64    // … which Redis published at this time of its clock, at the latest.
	brings  bool     // All its places ask once, as Redis has lost their tags: see bringTags.
	unused  []*Turn  // Turns that no call of the line needs. They are returned, or stay for calls that come.
	back    []string // By part, asks whose answers are lost for good: Redis takes back their turns with the next ask.
	done    []*Turn  // Turns that no longer hold their slots. Without a process: calls that may still have a place.

	gathers  time.Time     // Until then fresh calls wait for others, to ask together. Zero: they do not.
	pace     float64       // The micros per permit by which its forecasts were made. 0: they are not known.
	leastWay time.Duration // The way that the next ask allows for, because a turn came too late to be used. 0: no turn did.
	books    bool          // A call that leaves is booked under the ID …
	unsure   bool          // … and may not come back.

	listed    bool // It is among the lines in use …
	index     int  // … at this index.
	touched   bool // It has changed since plan last saw it.
	came      bool // A call has joined since then.
	queued    bool // It is among the lines that ask next.
	returning int  // How many batches under way return places and turns of it.
	followed  bool // It has waited until permits of other calls were returned.
	alarm     alarm
}

// touch notes that the line changes: plan will look at it.
func (l *line) touch() {
	if !l.touched {
		l.touched = true
		l.engine.touched = append(l.engine.touched, l)
	}
}

// join makes a call wait behind all others. The call gets a turn or a place that another call has just left.
func (l *line) join(c *Call, now time.Time) {
	l.touch()
	l.came = true
	c.line, c.joined = l, now
	if l.fresh() == 0 {
		if l.gathers = (time.Time{}); len(l.places) > 0 {
			l.gather(now)
		}
	}
	if !c.Deadline.IsZero() && c.Deadline.Before(l.gathers) { // the call has to learn in time that its turn is too late
		l.gathers = time.Time{}
	}
	l.waiting = append(l.waiting, c)
	if len(l.unused) > 0 && len(l.waiting) == 1 {
		if i := slices.IndexFunc(l.unused, func(t *Turn) bool { return !now.After(t.keptUntil()) }); i >= 0 {
			t := l.unused[i]
			l.unused = slices.Delete(l.unused, i, i+1)
			l.give(t, now)
		}
	}
	if n := len(l.waiting); n > 0 && n <= len(l.places) {
		switch last := l.waiting[n-1]; {
		case l.stops(): // no call would wait there, so its answer is asked for
			l.places[n-1].stale = true
		case l.misses(last, l.places[n-1].forecast, l.places[n-1].limit, now):
			l.waiting = l.waiting[:n-1]
		case last.Held:
			l.wake(last)
		}
	}
}

// give gives a turn to the first waiting call whose deadline it meets. A turn that no call needs becomes unused.
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

// hand gives a call a copy of a turn. A call that is not held uses a due turn at once.
func (l *line) hand(c *Call, t *Turn, now time.Time) {
	l.touch()
	if !t.Due.After(now) && !c.Held {
		t.spend()
		if c.own == nil {
			c.own = new(Turn)
		}
		*c.own = *t
		c.has(c.own)
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

// pop removes and returns the first waiting call.
func (l *line) pop() *Call {
	return behead(&l.waiting)
}

// behead removes and returns the first element. When it removes the last element, its memory is kept for later
// ones.
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

// misses fails a call whose turn would come after its deadline, and reports whether it did. limit is the index
// of the limit that delays the turn. Below 0: it is not known.
func (l *line) misses(c *Call, turn time.Time, limit int, now time.Time) bool {
	if c.Deadline.IsZero() || !turn.After(c.Deadline) || l.atSlots(limit) { // nobody knows when a slot is free
		return false
	}
	l.engine.remember(l.key, turn, limit, now)
	l.fail(c, l.engine.cfg.Errors.Missed(turn, c.Deadline, limit))
	return true
}

// use makes a call use its turn.
func (l *line) use(c *Call, now time.Time) {
	c.turn.spend()
	l.drop(c)
	c.uses(now)
	c.end(Used)
	if l.idle() {
		l.touch()
	}
}

// drop removes a call from the calls that have a turn, and returns its index.
func (l *line) drop(c *Call) int {
	i := slices.Index(l.given, c)
	l.given = slices.Delete(l.given, i, i+1)
	return i
}

// again makes a call wait again, first in the line, because its turn was not used in time. The call asks with
// its tags. The turn is returned if its ask was given no other one. A call that had no place, and shared its
// ask, asks as a new one: there may be thousands of them.
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

// first makes a call wait, first in the line, with the place of a turn that it has no longer. When the call
// asks, Redis takes back the turns of the ask named back.
func (l *line) first(c *Call, t *Turn, back string, now time.Time) {
	l.touch()
	c.waits()
	l.waiting = slices.Insert(l.waiting, 0, c)
	l.insert(&place{number: t.Number, tags: l.tagsOf(t), back: back, since: now, forecast: now})
}

// tagsOf returns the tags of the call of a turn.
func (l *line) tagsOf(t *Turn) []int64 {
	if t.Tags != nil {
		return t.Tags
	}
	return slices.Repeat([]int64{t.Given}, len(l.parts))
}

// expire ends held calls whose turns ended more than kept ago. Where the line has slots, it ends them as soon
// as their turns end: others get the slots.
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

// leave removes a call that gives up. Its turn or its place goes to the next call. It reports false if the call
// is over.
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
	for _, next := range l.given[at:] { // each call gets the turn of the one before it
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

// failAll fails all calls that have no turn.
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

// calls is the number of calls that have not used a turn.
func (l *line) calls() int { return len(l.waiting) + len(l.given) }

// oldest returns when the first call without a turn joined. Zero: all calls have turns.
func (l *line) oldest() time.Time {
	if len(l.waiting) == 0 {
		return time.Time{}
	}
	return l.waiting[0].joined
}

// atSlots reports whether the limit with an index has slots.
func (l *line) atSlots(limit int) bool { return limit >= 0 && limit < len(l.slots) && l.slots[limit] }

// spare reports whether there are places or turns that no call of the line needs.
func (l *line) spare() bool {
	return len(l.done) > 0 || slices.ContainsFunc(l.unused, func(t *Turn) bool { return !t.stays }) ||
		len(l.places) > len(l.waiting) && !l.places[len(l.places)-1].asking
}

// idle reports whether the line has nothing to do and nothing to remember.
func (l *line) idle() bool {
	return len(l.waiting)+len(l.given)+len(l.places)+l.asked+len(l.done)+l.returning == 0 && !l.spare()
}

// keeps drops the turns that cannot be returned and have ended. It returns when the others end: until then, calls
// that come use them. Zero: no turn is left, or the process has permits ahead of its calls, of which some may be lost.
func (l *line) keeps(now time.Time) (ends time.Time) {
	l.unused = slices.DeleteFunc(l.unused, func(t *Turn) bool {
		end := earlier(t.keptUntil(), t.Due.Add(unused))
		ends = later(ends, end)
		return !end.After(now)
	})
	if len(l.unused) == 0 || l.engine.closed || l.need.ended() || l.engine.leases[l.need.Limit] != nil {
		return time.Time{}
	}
	return ends
}

// due returns when the line has something to ask for. The zero time means now. It reports false if there is no
// such moment yet.
func (l *line) due(t *times) (when time.Time, ok bool) {
	if l.spare() {
		return time.Time{}, true
	}
	return l.asksAt(t)
}

// isDue makes plan look at the line: its alarm was due.
func (l *line) isDue(e *Engine, _ time.Time) { l.touch() }
