package reserve

import (
	"math"
	"time"

	"github.com/fleetpace/fleetpace/internal/outage"
)

// absence is the time that a line spends without Redis.
type absence struct {
	since  time.Time     // of the last answer, or of the first failure if there was none
	lane   *lane         // of the call with which the process comes back; nil: there was none …
	serial int64         // … and that call; 0: likewise
	local  *outage.Share // nil: no calls are paced by this process
	spent  int64         // permits used without the line
	until  time.Time     // when the line takes over; zero: Redis is not back

	patience time.Duration // with the next attempt to reach Redis
}

// absent is the line's absence, which begins now if there is none. The line must
// be locked.
func (l *line) absent(now time.Time) *absence {
	if l.memory.absent != nil {
		return l.memory.absent
	}
	a := &absence{since: now, patience: shortProbe}
	if !l.memory.at.IsZero() {
		a.since = l.memory.at
	}
	if l.core.cfg.Outage.Policy == PolicyLocal {
		// Until then turns are used that others were given in the last moment.
		start := now
		if fixed := l.core.gate.Failing().Add(l.core.cfg.InlineBound); fixed.After(now) {
			start = fixed
		}
		if l.where.until.After(start) {
			start = l.where.until
		}
		share, burst := l.share()
		a.local = outage.NewShare(share, burst, start)
	}
	l.memory.absent = a
	l.rides.plain = false
	return a
}

// isBack ends the line's absence. The line must be locked.
func (l *line) isBack() {
	if a := l.memory.absent; a != nil && a.lane != nil {
		a.lane.busy = false
	}
	l.memory.absent = nil
}

// share is this process's part of the limit: permits per second, and the burst.
func (l *line) share() (float64, int) {
	limit, outage := l.terms(), l.core.cfg.Outage
	part := outage.Share
	if l.memory.live > 0 {
		part = outage.Safety / float64(l.memory.live)
	}
	return limit.rate() * part, max(1, int(float64(limit.burst)*part))
}

// unnumbered is the ticket of a call that has no number, as Redis is away.
func (l *line) unnumbered(id string, cost int64, now time.Time) *ticket {
	t := &ticket{cost: cost, id: id, given: now, due: now, slack: l.core.terms().slack(cost)}
	if l.core.cfg.Outage.Policy == PolicyLocal {
		t.due = l.forecast(l.absent(now), cost, now)
	}
	return t
}

// forecast is when a call behind all that wait could be let through.
func (l *line) forecast(a *absence, cost int64, now time.Time) time.Time {
	if a.local == nil {
		return now
	}
	for q := range l.all {
		cost += q.cost * int64(q.turnless())
	}
	return a.local.At(now, min(cost, math.MaxInt32))
}

// at is when the process may let a call through.
func (a *absence) at(now time.Time, cost int64) time.Time {
	if a.local == nil {
		return now
	}
	return a.local.At(now, cost)
}

func (a *absence) plan(at time.Time) {
	if a.local != nil {
		a.local.Plan(at)
	}
}

func (a *absence) spend(now time.Time, cost int64) {
	if a.local != nil {
		a.local.Take(now, cost)
	}
	a.spent += cost
}
