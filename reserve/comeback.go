package reserve

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// An attempt to reach a Redis that is away may take so long: at first not long, as
// one that hangs is in the way of the next, and then longer, as the way may be slow.
// One that comes through later does no harm.
const (
	shortProbe = 500 * time.Millisecond
	longProbe  = 2 * time.Second
)

// sitOut waits for an attempt to reach Redis, and makes it; meanwhile the policy
// rules. It returns false when there is nothing left to wait for.
func (l *line) sitOut(ctx context.Context) bool {
	if l.core.gate.Pass() {
		l.comeBack(ctx)
		return true
	}
	l.mu.Lock()
	l.endure()
	if l.core.isClosing() || !l.needed() {
		l.core.leased.settle(l.back, nil)
		l.back = nil // they lapse unused
		l.flying = false
		l.mu.Unlock()
		return false
	}
	l.mu.Unlock()
	l.core.gate.Wait(l.core.closing)
	return true
}

// needed reports whether anybody waits for anything but a turn that is fixed.
func (l *line) needed() bool {
	if len(l.asks) > 0 {
		return true
	}
	for q := range l.all {
		if q.turnless() > 0 {
			return true
		}
	}
	return false
}

// mustComeBack reports whether calls have failed for so long that others may use
// their shares, though the breaker is closed: then a call may not simply go on.
func (l *line) mustComeBack() bool {
	outage, since := l.core.cfg.Outage, l.core.gate.Failing()
	if outage.Policy != PolicyLocal || since.IsZero() || time.Since(since) < outage.Probe {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.absent(time.Now())
	return true
}

// goOn ends the absence now that the breaker is closed: Redis is told, and until
// the moment when the line takes over the policy rules on.
func (l *line) goOn(ctx context.Context) {
	l.mu.Lock()
	over := l.memory.absent == nil || l.takeOver(time.Now())
	var until time.Time
	if !over {
		until = l.memory.absent.until
	}
	l.mu.Unlock()
	switch {
	case over:
	case until.IsZero():
		if !l.comeBack(ctx) && !l.core.gate.Open() {
			l.core.rest(ctx, 0)
		}
	default:
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.core.closing:
			l.mu.Lock()
			l.isBack()
			l.mu.Unlock()
		}
	}
}

// comeBack asks Redis to let this process back in, and settles what it spent. It
// reports whether Redis has answered.
func (l *line) comeBack(ctx context.Context) bool {
	l.mu.Lock()
	now := time.Now()
	a := l.absent(now)
	if a.lane == nil { // not before: calls were under way when the absence began
		a.lane = l.lane()
	}
	if a.serial == 0 {
		a.serial = l.sign(a.lane)
	}
	who, b := l.caller(a.lane, a.serial), l.bill(a, now)
	patience := a.patience
	a.patience = min(2*patience, longProbe)
	l.mu.Unlock()

	reply, err := within(patience, func() (answers, error) { return l.core.charge(ctx, l.keys, who, b) })
	l.core.gate.Record(ctx, err)

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.learn(a.lane, a.serial, reply)
		a.until = reply.at.Add(reply.resume)
	case !fault.Away(err), l.core.gate.Hopeless(err): // the calls will hear of it
		a.until = time.Now()
	case errors.Is(err, fault.ErrStale):
		a.serial = 0
		return false
	default:
		return false
	}
	if a.local == nil {
		a.until = time.Now()
	}
	l.takeOver(time.Now())
	for q := range l.all {
		for _, t := range q.waiting {
			if t.number == 0 {
				t.due = now // let it ask for a number
			}
		}
		l.advance(q)
	}
	return true
}

// bill is what the process owes the line.
func (l *line) bill(a *absence, now time.Time) bill {
	limit := l.terms()
	most := max(float64(limit.burst), limit.rate())
	b := bill{
		spent: a.spent,
		most:  int64(math.Ceil(most / float64(max(l.memory.live, 1)))),
		idle:  l.memory.idle,
		away:  now.Sub(a.since),
		grace: l.core.cfg.Outage.grace(),
	}
	if a.local != nil {
		b.least = min(a.spent, a.local.Debt(now))
	}
	return b
}

// within returns the outcome of a call that ends in time, and else an error that
// says it did not.
func within(limit time.Duration, call func() (answers, error)) (answers, error) {
	type outcome struct {
		answers
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		a, err := call()
		done <- outcome{a, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.answers, o.err
	case <-timer.C:
		return answers{}, fault.Classify(context.DeadlineExceeded)
	}
}
