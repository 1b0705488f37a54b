package asker

import (
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
)

const (
	// window is for how long what was measured counts.
	window = time.Minute

	// samples is how many round trips are kept.
	samples = 128

	// tooLate is after how many replies in a row that took longer than Tolerance the way is
	// taken to be as long as that of the fastest of them.
	tooLate = 8
)

// Tolerance is by how much a call may be late beyond what its permits allow: every provider
// bears that much, as networks jitter.
const Tolerance = 20 * time.Millisecond

// clock knows how long the way to Redis is, and when replies should arrive: turns count from
// there, as a call whose reply was late would be late against all others. It is safe for
// concurrent use.
type clock struct {
	mu   sync.Mutex
	zero time.Time // when a reply read at Redis's time 0 would have arrived; zero: not known
	set  time.Time // when that was learned
	late int       // replies in a row that were too late …
	slow time.Time // … and zero by the fastest of them

	trips [samples]trip
	next  int
	times times
	fresh int // trips that the times do not know of
}

// trip is a round trip to Redis.
type trip struct {
	took time.Duration
	at   time.Time
}

// times say when to ask, and what to tell Redis of it.
type times struct {
	way     time.Duration // back from Redis
	trip    time.Duration // there and back, usually
	lead    time.Duration // how long before its turn a call asks
	near    time.Duration // the same where a turn is given at the last moment only
	horizon time.Duration // how far ahead turns are given
	ahead   time.Duration // the same where permits of other limits would be lost
	grace   time.Duration // for how long permits wait for the head of a queue
}

func (t times) ofQueue() queue.Times {
	return queue.Times{Lead: t.lead, Near: t.near, Horizon: t.horizon + t.trip}
}

const (
	leastLead, mostLead = 100 * time.Millisecond, 400 * time.Millisecond
	slop                = 4 * time.Millisecond // of timers and of the network
	leastGrace          = 300 * time.Millisecond
	farthest            = time.Second // way and horizon together: see head.lua
)

// timesOf are those of a way whose round trips are known, sorted.
func timesOf(trips []time.Duration) times {
	if len(trips) == 0 {
		trips = []time.Duration{0}
	}
	at := func(part float64) time.Duration { return trips[int(part*float64(len(trips)-1))] }
	t := times{way: at(0) / 2, trip: at(0.5), lead: min(max(2*at(0.99)+slop, leastLead), mostLead), grace: max(leastGrace, 2*at(1))}
	t.horizon = 2*t.lead + 50*time.Millisecond
	t.way = min(t.way, farthest-t.horizon)
	t.ahead = min(t.trip+slop, t.horizon)
	t.near = t.trip + t.ahead*3/5
	return t
}

// arrival notes a round trip, and Redis's time in its reply, in micros, and returns when
// that time and the way that the call told is over: turns of the reply count from there. It
// is when the fastest replies arrive, once the way is known.
func (c *clock) arrival(micros int64, told time.Duration, sent, arrived time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips[c.next%samples] = trip{arrived.Sub(sent), arrived}
	c.next++
	c.fresh++
	at := c.expected(micros, sent, arrived)
	return at.Add(told - c.lately(arrived).way)
}

// expected is when a reply arrives that is as fast as the fastest. The clock must be locked.
func (c *clock) expected(micros int64, sent, arrived time.Time) time.Time {
	since := time.Duration(micros) * time.Microsecond
	zero, at := arrived.Add(-since), c.zero.Add(since)
	if c.zero.IsZero() || at.Before(sent) || at.After(arrived) || arrived.Sub(c.set) > window {
		c.zero, c.set, c.late = zero, arrived, 0
		return arrived
	}
	if arrived.Sub(at) <= Tolerance {
		c.late = 0
		return at
	}
	if c.late == 0 || zero.Before(c.slow) {
		c.slow = zero
	}
	if c.late++; c.late >= tooLate {
		c.zero, c.set, c.late = c.slow, arrived, 0
		at = c.zero.Add(since)
	}
	return at
}

// now are the times by the round trips of late.
func (c *clock) now(at time.Time) times {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lately(at)
}

func (c *clock) lately(at time.Time) times {
	if c.times.lead > 0 && c.fresh < samples/8 && c.next > samples/8 {
		return c.times
	}
	var trips []time.Duration
	for _, t := range c.trips[:min(c.next, samples)] {
		if at.Sub(t.at) <= window {
			trips = append(trips, t.took)
		}
	}
	slices.Sort(trips)
	c.times, c.fresh = timesOf(trips), 0
	return c.times
}
