package engine

import (
	"container/heap"
	"slices"
	"time"
)

const (
	// window is how long a measurement counts.
	window = time.Minute

	// samples is how many round trips are kept.
	samples = 128

	// jump is the least step of Redis's clock that counts: STEP of head.lua.
	jump = time.Second

	// alike is how many successive round trips must be about as fast as the fastest one before half of that is
	// taken as the way back. The first trips connect, log in and send the scripts before Redis reads its clock,
	// and a busy machine delays any trip. A turn that is late for such a reason is late once. A turn that is
	// early would break the limit.
	alike = 3
)

// Tolerance is how much later a call may be than its permits allow. Every provider tolerates that much, as
// networks jitter.
const Tolerance = 20 * time.Millisecond

// clock knows how long the way to Redis takes, and at which moment of this process a moment of Redis's clock
// was. Turns count from that moment: a turn that counted from the arrival of a slow reply would be late against
// all others.
//
// Redis reads its clock between the moments at which a call was sent and its reply arrived. So each trip bounds
// the difference of the clocks. Trips with a fast way there bound it from below, and trips with a fast way back
// bound it from above. The difference is taken to be in the middle, if some trips took about as long as the
// bounds are apart. Otherwise it is taken to be at the upper end: then no turn is early.
type clock struct {
	bounds [2]bounds // of the latest trips, and of the trips before them

	// stepped is when Redis's clock stepped ahead, and before is the upper bound before that.
	stepped time.Time
	before  time.Time
	jumped  bool // it has stepped far, ahead or back, and nobody has acted on that

	// lacks is how many trips, one after the other, the clock lacks since Redis's clock has stepped, far or not. The last
	// one arrived at lacked.
	lacks  int
	lacked time.Time

	trips [samples]trip
	next  int
	known times
	fresh int // trips that known does not count yet
}

// bounds are the bounds of the moment here at which Redis's clock showed 0.
type bounds struct {
	low, high time.Time
	since     time.Time
}

// trip is a round trip to Redis.
type trip struct {
	took time.Duration
	at   time.Time
}

// times say when calls ask, and what an ask tells Redis of that.
type times struct {
	trips   int           // The number of trips that these are taken from.
	fastest time.Duration // The fastest round trip.
	way     time.Duration // From Redis back to here. Most replies do not take longer.
	trip    time.Duration // The usual round trip.
	lead    time.Duration // How long before its turn a call asks.
	near    time.Duration // The same, where a turn is given at the last moment only.
	share   time.Duration // How much earlier it may ask, to share a batch.
	horizon time.Duration // How far ahead Redis gives turns.
	ahead   time.Duration // The same, where permits of other limits would be lost meanwhile.
	grace   time.Duration // How long permits wait for the head of a queue.
}

const (
	leastLead, mostLead = 100 * time.Millisecond, 400 * time.Millisecond
	slop                = 4 * time.Millisecond // the jitter of timers and of the network
	mostHorizon         = 500 * time.Millisecond
	usualGrace          = 400 * time.Millisecond // with the round trips, permits pass to the next call within half a second
	leastHorizon        = 50 * time.Millisecond  // for an ask that allows for a late reply
	farthest            = time.Second            // way and horizon together: see head.lua
)

// timesOf returns the times for some round trips, which are sorted.
func timesOf(trips []time.Duration) times {
	if len(trips) == 0 {
		trips = []time.Duration{0}
	}
	at := func(part float64) time.Duration { return trips[int(part*float64(len(trips)-1))] }
	t := times{trips: len(trips), fastest: at(0), trip: at(0.5), lead: min(max(2*at(0.99)+slop, leastLead), mostLead), grace: usualGrace}
	t.horizon = min(2*t.lead+50*time.Millisecond, mostHorizon)
	t.share = (t.horizon - t.lead) / 2
	t.way = min(max(t.fastest/2, at(0.6)-t.fastest/2-Tolerance), farthest-t.horizon)
	t.ahead = min(t.trip+slop, t.horizon)
	t.near = t.trip + t.ahead*3/5
	return t
}

// reach is how far away a turn may be when a call asks for it and gets it.
func (t *times) reach() time.Duration { return t.horizon + t.trip }

// arrival notes a round trip, and Redis's time in its reply, in micros. It returns the moment here at which
// that time, and the way that the call told Redis, are over: turns of the reply count from there. It also
// returns by how much that moment may be early.
func (c *clock) arrival(micros int64, told time.Duration, sent, arrived time.Time) (at time.Time, way time.Duration) {
	since := time.Duration(micros) * time.Microsecond
	c.trips[c.next%samples] = trip{arrived.Sub(sent), arrived}
	c.next++
	c.fresh++
	c.bound(sent.Add(-since), arrived.Add(-since), arrived)
	low, high := c.within()
	if way = high.Sub(low) / 2; !c.trusted(2*way, arrived) {
		way = 0
	}
	return high.Add(since + told - way), way
}

// sure reports whether the clocks are known well enough to say when turns are due: by some trips since Redis's clock
// stepped, or by one that was fast.
func (c *clock) sure() bool {
	low, high := c.within()
	return c.next >= alike && c.lacks == 0 || c.next > 0 && high.Sub(low) <= slop
}

// redis returns Redis's time at a moment, in micros, at the least. 0: it is not known.
func (c *clock) redis(moment time.Time) int64 {
	if c.next == 0 {
		return 0
	}
	_, high := c.within()
	return moment.Sub(high).Microseconds()
}

// soonest returns the moment here, at the least, at which Redis's clock shows so many micros.
func (c *clock) soonest(micros int64) time.Time {
	low, _ := c.within()
	return low.Add(time.Duration(micros) * time.Microsecond)
}

// unstepped returns what redis would return if Redis's clock had not stepped ahead recently. A limit that the
// process has not asked for may have been used before that step. 0: there was no such step, or that is not
// known.
func (c *clock) unstepped(moment time.Time) int64 {
	if c.stepped.IsZero() || moment.Sub(c.stepped) > window {
		return 0
	}
	return moment.Sub(c.before).Microseconds()
}

// bound notes what a trip says about the clocks. If the bounds contradict each other, a clock has stepped.
func (c *clock) bound(low, high, now time.Time) {
	b := &c.bounds[0]
	_, was := c.within()
	if b.since.IsZero() || now.Sub(b.since) > window/2 {
		c.bounds[1], *b = *b, bounds{low, high, now}
	}
	b.low, b.high = later(b.low, low), earlier(b.high, high)
	if c.lacks > 0 && !now.Add(low.Sub(high)).Before(c.lacked) { // it was sent after the last one arrived
		c.lacks, c.lacked = c.lacks-1, now
	}
	if least, most := c.within(); least.After(most) {
		c.jumped = c.jumped || was.Sub(high).Abs() > jump
		if high.Before(was) && now.Sub(c.stepped) > window {
			c.stepped, c.before = now, was
		}
		c.bounds, c.lacks, c.lacked = [2]bounds{{low, high, now}}, alike-1, now
	}
}

// within returns the bounds that follow from both.
func (c *clock) within() (low, high time.Time) {
	now, before := c.bounds[0], c.bounds[1]
	if before.since.IsZero() {
		return now.low, now.high
	}
	return later(now.low, before.low), earlier(now.high, before.high)
}

// trusted reports whether enough trips since the bounds began took no longer than about took. Only trips one
// after the other count: a stall makes all trips that are under way equally slow.
func (c *clock) trusted(took time.Duration, now time.Time) bool {
	n, began := 0, c.bounds[1].since
	if began.IsZero() {
		began = c.bounds[0].since
	}
	var last time.Time
	for i := max(0, c.next-samples); i < c.next && n < alike; i++ {
		t := c.trips[i%samples]
		if now.Sub(t.at) > window || t.at.Before(began) || t.took > took*9/8+time.Millisecond {
			continue
		}
		if sent := t.at.Add(-t.took); !sent.Before(last) {
			n, last = n+1, t.at
		}
	}
	return n >= alike
}

// times returns the times by the latest round trips.
func (c *clock) times(now time.Time) *times {
	if c.known.lead > 0 && c.fresh < samples/8 && c.next > samples/8 {
		return &c.known
	}
	var trips []time.Duration
	for _, t := range c.trips[:min(c.next, samples)] {
		if now.Sub(t.at) <= window {
			trips = append(trips, t.took)
		}
	}
	slices.Sort(trips)
	c.known, c.fresh = timesOf(trips), 0
	return &c.known
}

// alarm is a moment at which something is due. The zero alarm is not set.
type alarm struct {
	at    time.Time
	index int // in the heap, from 1 on; 0: it is not set
	of    due
}

// due is what an alarm is set for.
type due interface {
	// isDue does what is to be done. The alarm is not set any more.
	isDue(e *Engine, now time.Time)
}

// duty is a task of the engine itself for which an alarm is set.
type duty func(e *Engine, now time.Time)

func (d duty) isDue(e *Engine, now time.Time) { d(e, now) }

// alarms is a heap of the alarms that are set, the earliest first.
//
// Invariant: alarms[i].index is i+1, and no alarm is earlier than its parent in the heap.
type alarms []*alarm

// set sets an alarm to a moment, and to no other one.
func (h *alarms) set(a *alarm, at time.Time) {
	switch {
	case a.index == 0:
		a.at = at
		heap.Push(h, a)
	case !a.at.Equal(at):
		a.at = at
		heap.Fix(h, a.index-1)
	}
}

// clear unsets an alarm.
func (h *alarms) clear(a *alarm) {
	if a.index > 0 {
		heap.Remove(h, a.index-1)
	}
}

// next is when the first alarm is due. Zero: no alarm is set.
func (h alarms) next() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].at
}

// ring does all that is due.
func (h *alarms) ring(e *Engine, now time.Time) {
	for len(*h) > 0 && !(*h)[0].at.After(now) {
		a := (*h)[0]
		h.clear(a)
		a.of.isDue(e, now)
	}
}

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push is for package heap.
func (h *alarms) Push(x any) {
	a, _ := x.(*alarm)
	*h = append(*h, a)
	a.index = len(*h)
}

// Pop is for package heap.
func (h *alarms) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.index = 0
	return a
}
