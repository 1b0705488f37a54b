package reserve

import (
	"sync"
	"time"
)

// memory is what this process knows of a line from its last answer. It goes along
// with every call: after Redis lost its data, or an older copy took over, the
// line goes on where those who call have seen it last.
type memory struct {
	at     time.Time // of the answer; zero: there was none
	epoch  int64
	seen   int64     // Redis's time then
	reach  time.Time // when the last turn that was fixed is due
	live   int64     // processes that use the line, the most of the last minute …
	lively time.Time // … and when they were counted: lost data forgets who is there
	idle   int64     // permits of the line that nobody used
	absent *absence  // nil: Redis is there
}

// nothingKnown is the reach of a line that the process knows nothing about:
// long enough ago for any bucket to be full.
const nothingKnown = -century

// note takes in an answer.
func (m *memory) note(a answers) {
	m.at, m.epoch, m.seen = a.at, a.epoch, a.seen
	m.reach = a.at.Add(a.reach)
	m.idle = a.idle
	if a.live >= m.live || a.at.Sub(m.lively) > alive {
		m.live, m.lively = a.live, a.at
	}
}

// learn takes in an answer. Numbers from before data was lost mean nothing any more:
// whoever waits under one stands in the line again at once. The line must be locked.
func (l *line) learn(a answers) {
	lost := l.memory.epoch != 0 && a.epoch != l.memory.epoch
	l.memory.note(a)
	if lost {
		l.lost = true
		l.kick()
	}
}

// alive is for how long a process counts after its last call, as in line.lua.
const alive = time.Minute

// caller is what a process tells of itself, and of what it remembers, with a
// call.
type caller struct {
	reach       time.Duration
	epoch, seen int64
	clock       int64 // what it thinks Redis's time is; 0: not known
	member      string
	serial      int64 // of the call; 0: not numbered
}

// caller begins a call. The line must be locked.
func (l *line) caller(serial int64) caller {
	now := time.Now()
	reach := nothingKnown
	if !l.memory.at.IsZero() {
		reach = max(l.memory.reach.Sub(now), nothingKnown)
	}
	return caller{
		reach: reach, epoch: l.memory.epoch, seen: l.memory.seen,
		clock: l.core.clock.at(now), member: l.core.member, serial: serial,
	}
}

// stranger begins a call that says nothing of a line, nor of who makes it.
func (c *core) stranger() caller {
	return caller{reach: nothingKnown, clock: c.clock.at(time.Now())}
}

// clock estimates Redis's time on this process's monotonic clock, so that a step
// of Redis's clock shows, and so does a reply that took longer than others.
type clock struct {
	mu   sync.Mutex
	zero time.Time     // when a reply read at zero would have arrived; zero: not known
	set  time.Time     // when that was learned
	late int           // replies in a row that came too late for a turn …
	slow time.Time     // … and zero by the fastest of them
	trip time.Duration // of a call, there and back, averaged over the last ones
}

const (
	// clockLasts is how long an estimate is trusted: two clocks drift apart.
	clockLasts = time.Minute

	// tooOften is after how many replies in a row that came too late for a turn
	// the way to Redis is taken to be as long as for the fastest of them.
	tooOften = 8
)

// arrival notes a time of Redis, in Unix microseconds, and returns when a reply
// read at that time arrives if it takes as long as the fastest: waits count from
// there, as a call whose reply was late would be late against all others. Where
// that can not be, the clock has stepped, or this reply is the fastest. The wait is
// the shortest that the reply tells; negative if it tells none.
func (c *clock) arrival(micros int64, wait time.Duration, sent, arrived time.Time) time.Time {
	since := time.Duration(micros) * time.Microsecond
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trip += (arrived.Sub(sent) - c.trip) / 8
	zero, at := arrived.Add(-since), c.zero.Add(since)
	if c.zero.IsZero() || at.Before(sent) || at.After(arrived) || arrived.Sub(c.set) > clockLasts {
		c.zero, c.set, c.late = zero, arrived, 0
		return arrived
	}
	switch {
	case wait < 0:
	case arrived.Sub(at) <= wait+oversleep:
		c.late = 0
	default:
		if c.late == 0 || zero.Before(c.slow) {
			c.slow = zero
		}
		if c.late++; c.late >= tooOften {
			c.zero, c.set, c.late = c.slow, arrived, 0
			return c.zero.Add(since)
		}
	}
	return at
}

// roundTrip is how long a call takes.
func (c *clock) roundTrip() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trip
}

// at is Redis's time in Unix microseconds; 0 when not known.
func (c *clock) at(now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.zero.IsZero() {
		return 0
	}
	return now.Sub(c.zero).Microseconds()
}
