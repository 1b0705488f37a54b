// Package inprocess is a limiter for one process that can be paused and
// adjusted, and keeps a record of it: tests and examples need no Redis with it.
package inprocess

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Limiter gives turns as a token bucket does. A call that waits follows at once
// when the limit changes. It is safe for concurrent use.
type Limiter struct {
	own reserve.Limit

	mu     sync.Mutex
	limit  reserve.Limit
	full   time.Time // when the bucket is full again
	until  time.Time // when the pause ends
	turns  int
	pauses []Pause
	limits []Change
	fail   error
}

// Pause is one that was asked for.
type Pause struct {
	For    time.Duration
	Reason string
}

// Change is one of the limit that was asked for.
type Change struct {
	At     time.Time
	Limit  reserve.Limit
	Expiry time.Duration
}

// New makes a Limiter with a full bucket.
func New(limit reserve.Limit) *Limiter {
	return &Limiter{own: limit, limit: limit}
}

// WaitN blocks until a call of n permits has its turn, or the context ends.
func (l *Limiter) WaitN(ctx context.Context, n int) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		wait := l.take(n)
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// take takes n permits if they are there, or says how long to wait before asking
// again.
func (l *Limiter) take(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if wait := l.until.Sub(now); wait > 0 {
		return wait
	}
	interval := l.limit.Interval()
	full := l.full
	if full.Before(now) {
		full = now
	}
	full = full.Add(time.Duration(n) * interval)
	if wait := full.Sub(now) - time.Duration(l.limit.MaxBurst())*interval; wait > 0 {
		return wait
	}
	l.full = full
	l.turns++
	return 0
}

// Pause lets nobody through for d; it never shortens a pause.
func (l *Limiter) Pause(_ context.Context, d time.Duration, reason string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.pauses = append(l.pauses, Pause{d, reason})
	if until := time.Now().Add(d); until.After(l.until) {
		l.until = until
	}
	return nil
}

// SetLimit changes the limit. The expiry is only recorded.
func (l *Limiter) SetLimit(_ context.Context, limit reserve.Limit, expiry time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	l.limits = append(l.limits, Change{time.Now(), limit, expiry})
	l.limit = limit
	return nil
}

// Restore ends what was set: the Limiter's own limit counts again.
func (l *Limiter) Restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = l.own
}

// Limit is the one that the Limiter was made with.
func (l *Limiter) Limit() reserve.Limit { return l.own }

// Now is the limit that counts.
func (l *Limiter) Now() reserve.Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// Fail lets Pause and SetLimit fail with err until it is nil.
func (l *Limiter) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// Turns is how many calls had a turn.
func (l *Limiter) Turns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns
}

// Pauses are those that were asked for.
func (l *Limiter) Pauses() []Pause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pauses)
}

// Changes are those of the limit that were asked for.
func (l *Limiter) Changes() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.limits)
}
