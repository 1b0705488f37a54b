package reserve

import (
	"strconv"
	"sync"
	"time"
)

// memory is what this process knows of a line from its last answer. It goes along
// with every call: after Redis lost its data, or an older copy took over, the
// line goes on where those who call have seen it last.
type memory struct {
	at     time.Time // of the answer; zero: there was none
	serial int64     // of the last numbered call that was answered
	epoch  int64
	reach  time.Time // when the last turn that was fixed is due
	told   int64     // how many processes use the line
	said   any       // the epoch and that, as scripts want them; nil: they are new
	live   int64     // the most of the last minute …
	lively time.Time // … and when they were counted: lost data forgets who is there
	idle   int64     // permits of the line that nobody used
	absent *absence  // nil: Redis is there
}

// nothingKnown is the reach of a line that the process knows nothing about:
// long enough ago for any bucket to be full.
const nothingKnown = -century

// note takes in the answer to a call; serial 0: it has none. Of a call that was made
// before another that was answered already, only its turns matter. It reports whether
// data was lost since the last answer.
func (m *memory) note(serial int64, a answers) (lost bool) {
	reach := a.at.Add(a.reach)
	if serial > 0 && serial < m.serial {
		if a.epoch == m.epoch && reach.After(m.reach) {
			m.reach = reach
		}
		return false
	}
	lost = m.epoch != 0 && a.epoch != m.epoch
	m.serial = max(m.serial, serial)
	if a.epoch != m.epoch || a.live != m.told {
		m.said = nil
	}
	m.at, m.epoch, m.reach, m.idle, m.told = a.at, a.epoch, reach, a.idle, a.live
	if a.live >= m.live || a.at.Sub(m.lively) > alive {
		m.live, m.lively = a.live, a.at
	}
	return lost
}

// later is by how much later than the reach others may have turns that are fixed: as
// far ahead as when this process saw the line, and a quarter more, as turns are fixed
// in rows (see core.nearby). While Redis is away nobody gets any.
func (m *memory) later(now time.Time) time.Duration {
	if m.live < 2 || m.absent != nil || now.Sub(m.at) > alive {
		return 0
	}
	ahead := m.reach.Sub(m.at)
	return max(0, now.Sub(m.at)+max(0, ahead)/4)
}

// text is how a quick call begins to say what the process knows of the line.
func (m *memory) text() any {
	if m.said == nil {
		m.said = strconv.FormatInt(m.epoch, 10) + " " + strconv.FormatInt(m.told, 10)
	}
	return m.said
}

// learn takes in the answer to a call of a lane. Numbers from before data was lost mean
// nothing any more: whoever waits under one stands in the line again at once. The line
// must be locked.
func (l *line) learn(from *lane, serial int64, a answers) {
	from.saw(a.epoch, a.seen)
	l.follow(a.geometry())
	if a.epoch != l.where.epoch || a.gen == l.where.gen { // else it is older
		l.inForce = a.terms
	}
	if l.memory.note(serial, a) {
		l.lost = true
		l.kick()
	}
}

// alive is for how long a process counts after its last call, as in line.lua.
const alive = time.Minute

// clock estimates Redis's time on this process's monotonic clock, so that a step
// of Redis's clock shows, and so does a reply that took longer than others.
type clock struct {
	mu   sync.Mutex
	zero time.Time     // when a reply read at zero would have arrived; zero: not known
	set  time.Time     // when that was learned
	off  time.Duration // zero may be too late by so much
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
// the shortest that the reply tells; negative if it tells none. The second result is by how
// much the moment may be too late, where there is no estimate to hold it against.
func (c *clock) arrival(micros int64, wait time.Duration, sent, arrived time.Time) (time.Time, time.Duration) {
	since := time.Duration(micros) * time.Microsecond
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trip += (arrived.Sub(sent) - c.trip) / 8
	zero, at := arrived.Add(-since), c.zero.Add(since)
	if c.zero.IsZero() || at.Before(sent) || at.After(arrived) || arrived.Sub(c.set) > clockLasts {
		c.zero, c.set, c.late, c.off = zero, arrived, 0, arrived.Sub(sent)
		return arrived, c.off
	}
	c.off = min(c.off, arrived.Sub(sent))
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
			return c.zero.Add(since), 0
		}
	}
	return at, 0
}

// estimate is arrival without learning anything.
func (c *clock) estimate(micros int64, sent, arrived time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.zero.Add(time.Duration(micros) * time.Microsecond)
	if c.zero.IsZero() || at.Before(sent) || at.After(arrived) {
		return arrived
	}
	return at
}

// roundTrip is how long a call takes.
func (c *clock) roundTrip() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trip
}

// at is Redis's time in Unix microseconds; 0 when not known, or so roughly that a reply
// that was late would look like a step of Redis's clock.
func (c *clock) at(now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.zero.IsZero() || c.off > suspension/2 {
		return 0
	}
	return now.Sub(c.zero).Microseconds()
}
