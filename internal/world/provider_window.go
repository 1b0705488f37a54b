package world

import (
	"fmt"
	"time"
)

// counted is the common part of providers that count permits: the limits that they may follow now. A
// provider may take as long to follow a change as a provider of a rate.
type counted struct {
	now     time.Duration
	changes []allowance
	paused  time.Duration
}

// allowance is how many permits a limit allows from a moment on.
type allowance struct {
	at      time.Duration
	permits float64
}

func (c *counted) change(a, _ float64) { c.changes = append(c.changes, allowance{c.now, a}) }

func (c *counted) pause(until time.Duration) { c.paused = until }

// bounds returns the least and the most permits that a provider may allow now.
func (c *counted) bounds() (least, most float64) {
	least, most = c.changes[0].permits, c.changes[0].permits
	for len(c.changes) > 1 && c.changes[1].at+follows < c.now {
		c.changes = c.changes[1:]
		least, most = c.changes[0].permits, c.changes[0].permits
	}
	for _, b := range c.changes {
		least, most = min(least, b.permits), max(most, b.permits)
	}
	return least, most
}

// free returns the part of a time in which the permits come that nobody used in it.
func (c *counted) free(passed time.Duration, used float64) time.Duration {
	least, _ := c.bounds()
	return time.Duration((least - used) / least * float64(passed))
}

// rolling allows N permits in any stretch of time as long as its window.
type rolling struct {
	counted
	window, tolerated time.Duration
	log               []spent
}

type spent struct {
	at   time.Duration
	cost float64
}

func newRolling(permits float64, window, tolerated time.Duration) *rolling {
	return &rolling{counted{changes: []allowance{{permits: permits}}}, window, tolerated, nil}
}

func (r *rolling) wait(until time.Duration, cost float64) time.Duration {
	passed := until - r.now
	r.now = until
	for len(r.log) > 0 && r.log[0].at <= until-r.window-slack {
		r.log = r.log[1:]
	}
	if !r.has(cost) {
		return 0
	}
	return r.free(passed, r.used(r.window+slack))
}

// used returns what was used in the last window, if that is so long.
func (r *rolling) used(window time.Duration) (used float64) {
	for _, s := range r.log {
		if s.at > r.now-window {
			used += s.cost
		}
	}
	return used
}

func (r *rolling) take(cost float64) error {
	r.log = append(r.log, spent{r.now, cost})
	used := r.used(r.window - r.tolerated)
	if _, most := r.bounds(); used > most {
		return fmt.Errorf("%v permits in %v, of %v", used, r.window, most)
	}
	return nil
}

func (r *rolling) done(madeAt time.Duration, cost, used float64) {
	rest := max(0, cost-used)
	for k := range r.log {
		if s := &r.log[k]; s.at == madeAt && rest > 0 {
			back := min(s.cost, rest)
			s.cost, rest = s.cost-back, rest-back
		}
	}
}

func (r *rolling) has(cost float64) bool {
	least, _ := r.bounds()
	return r.paused <= r.now && r.used(r.window+slack)+cost <= least
}

// quota allows N permits in each window of the calendar.
type quota struct {
	counted
	began  time.Duration // the time in its calendar at which the world began
	window time.Duration
	used   float64
}

func newQuota(permits float64, window, began time.Duration) *quota {
	return &quota{counted{changes: []allowance{{permits: permits}}}, began, window, 0}
}

func (q *quota) wait(until time.Duration, cost float64) time.Duration {
	passed := until - q.now
	if (q.now+q.began)/q.window != (until+q.began)/q.window {
		q.used = 0
	}
	q.now = until
	if !q.has(cost) {
		return 0
	}
	return q.free(passed, q.used)
}

func (q *quota) take(cost float64) error {
	q.used += cost
	if _, most := q.bounds(); q.used > most {
		return fmt.Errorf("%v permits in a window, of %v", q.used, most)
	}
	return nil
}

func (q *quota) done(_ time.Duration, cost, used float64) { q.used -= max(0, cost-used) }

// edge is how near to the edge of a window no turn is due.
const edge = 1500 * time.Millisecond

func (q *quota) has(cost float64) bool {
	least, _ := q.bounds()
	into := (q.now + q.began) % q.window
	return q.paused <= q.now && q.used+cost <= least && into > edge && into < q.window-edge
}

// slots allows N calls at once.
type slots struct {
	counted
	held float64
}

func newSlots(permits float64) *slots {
	return &slots{counted{changes: []allowance{{permits: permits}}}, 0}
}

func (s *slots) wait(until time.Duration, cost float64) time.Duration {
	passed := until - s.now
	s.now = until
	if !s.has(cost) {
		return 0
	}
	return s.free(passed, s.held)
}

func (s *slots) take(cost float64) error {
	s.held += cost
	if _, most := s.bounds(); s.held > most {
		return fmt.Errorf("%v slots of %v", s.held, most)
	}
	return nil
}

func (s *slots) done(_ time.Duration, cost, _ float64) { s.held -= cost }

func (s *slots) has(cost float64) bool {
	least, _ := s.bounds()
	return s.paused <= s.now && s.held+cost <= least
}

// warming lets a call through when the calls before it are paid for. Permits cost more while the limit is
// cold; the provider does not insist on that.
type warming struct {
	counted
	tolerated, period time.Duration
	rate              float64
	ready             time.Duration // when all calls are paid for
}

func newWarming(rate float64, period, tolerated time.Duration) *warming {
	return &warming{counted{changes: []allowance{{permits: rate}}}, tolerated, period, rate, 0}
}

// wait counts all that is beyond three times the pace as idle: a limit is never colder than that.
func (m *warming) wait(until time.Duration, cost float64) time.Duration {
	passed := until - m.now
	m.now = until
	least, _ := m.bounds()
	if m.paused > m.now-m.period || m.now-m.ready < slack+time.Duration(2*cost/least*float64(time.Second)) {
		return 0
	}
	return passed
}

func (m *warming) take(cost float64) error {
	_, most := m.bounds()
	if m.ready > m.now+m.tolerated {
		return fmt.Errorf("a call is %v too early", m.ready-m.now)
	}
	m.ready = max(m.ready, m.now) + time.Duration(cost/most*float64(time.Second))
	return nil
}

func (*warming) done(_ time.Duration, _, _ float64) {}

func (m *warming) has(float64) bool { return m.paused <= m.now && m.ready+slack <= m.now }

func (m *warming) change(a, _ float64) { m.counted.change(1e6/a, 0) }
