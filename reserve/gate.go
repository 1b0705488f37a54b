package reserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
)

const (
	// oneEvent is how long failures count as one: what breaks one call breaks others
	// at the same moment, and an attempt that follows at once.
	oneEvent = 200 * time.Millisecond

	// breath is the least time between two attempts to reach a Redis that is away.
	breath = 50 * time.Millisecond
)

// gate stands before Redis: a circuit breaker that opens after some failures in a
// row, lets an attempt through from time to time, and closes when one succeeds.
type gate struct {
	cfg      Config
	breaker  circuitbreaker.CircuitBreaker[any]
	interval time.Duration // from one attempt to the next, begin to begin
	known    atomic.Bool   // Redis has answered once
	strange  sync.Once     // … or somebody was told that it has not

	mu       sync.Mutex
	turned   chan struct{} // closed and replaced when the breaker changes its state
	cause    error         // the last failure
	failed   time.Time     // the first failure since the last answer; zero: none
	failures int           // since then, as far as they count
	counted  time.Time     // the last of those
	opened   time.Time     // zero: closed
	next     time.Time     // attempt, while it is open
}

func newGate(cfg Config, jitter func() float64) *gate {
	g := &gate{cfg: cfg, turned: make(chan struct{})}
	// Each process has an interval of its own, so that they do not come in step.
	g.interval = time.Duration((0.5 + jitter()) * float64(cfg.Outage.Probe))
	g.breaker = circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(1). // of those that matter
		WithSuccessThreshold(1).
		WithDelay(0). // next says when
		OnStateChanged(func(e circuitbreaker.StateChangedEvent) { g.turn(e.OldState, e.NewState) }).
		Build()
	return g
}

// pass reports whether an attempt may be made now; its outcome must be recorded.
func (g *gate) pass() bool {
	switch {
	case !g.open():
		return g.breaker.TryAcquirePermit()
	case time.Now().Before(g.upcoming()), !g.breaker.TryAcquirePermit():
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = time.Now().Add(g.interval)
	return true
}

// upcoming is when the next attempt may be made while the breaker is open.
func (g *gate) upcoming() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.next
}

// open reports whether Redis counts as away.
func (g *gate) open() bool { return !g.breaker.IsClosed() }

// record notes the outcome of an attempt.
func (g *gate) record(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil && err != nil:
		// The caller left: that says nothing of Redis. But an attempt that was let
		// through an open breaker has to end.
		if g.open() {
			g.breaker.RecordFailure()
		}
	case g.hopeless(err): // that is no outage; the calls are to hear of it
		if g.open() {
			g.breaker.RecordSuccess()
		}
	case fault.Away(err):
		if g.failure(time.Now(), err) || g.open() {
			g.breaker.RecordFailure()
		}
	default:
		g.known.Store(true)
		g.mu.Lock()
		g.failed, g.failures = time.Time{}, 0
		g.mu.Unlock()
		g.breaker.RecordSuccess()
	}
}

// failure notes one, and reports whether there were enough in a row.
func (g *gate) failure(now time.Time, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause = err
	if g.failures == 0 {
		g.failed = now
	}
	if g.failures == 0 || now.Sub(g.counted) >= oneEvent {
		g.failures, g.counted = g.failures+1, now
	}
	if rested := now.Add(breath); g.next.Before(rested) {
		g.next = rested
	}
	return g.failures >= g.cfg.Outage.Failures
}

// failing is since when calls fail.
func (g *gate) failing() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// hopeless reports whether an error will not go away: wrong credentials, from a
// Redis that has never accepted them, a setting with which no turn can be given, or a
// client that was closed.
func (g *gate) hopeless(err error) bool {
	return errors.Is(err, ErrDenied) && !g.known.Load() || errors.Is(err, fault.ErrNoEffects) || errors.Is(err, redis.ErrClosed)
}

func (g *gate) turn(from, to circuitbreaker.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.turned)
	g.turned = make(chan struct{})
	switch {
	case from == circuitbreaker.ClosedState:
		g.opened = time.Now()
		g.next = g.opened.Add(g.interval)
		if !g.known.Load() && g.cfg.Logger == noLogger {
			g.strange.Do(g.warnOfStranger)
		}
		g.cfg.Logger.Warn("fleetpace: Redis gives no turns; calls follow the policy until it is back",
			"limit", g.cfg.Name, "policy", string(g.cfg.Outage.Policy), "error", g.cause)
	case to == circuitbreaker.ClosedState:
		g.cfg.Logger.Info("fleetpace: Redis gives turns again",
			"limit", g.cfg.Name, "away", time.Since(g.opened).Round(time.Millisecond))
		g.opened = time.Time{}
	}
}

// turning is closed when the breaker next changes its state.
func (g *gate) turning() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turned
}

// warnOfStranger tells whoever runs the program of a Redis that was never reached, such as
// at a wrong address, though nobody asked for a log: without it, calls go on under the
// policy, and nothing shows that the fleet has no common limit. The gate must be locked.
func (g *gate) warnOfStranger() {
	slog.Default().Warn("fleetpace: Redis was never reached; calls follow the policy until it is. Set Config.Logger to hear more",
		"limit", g.cfg.Name, "policy", string(g.cfg.Outage.Policy), "error", g.cause)
}

// wait returns when another attempt may be possible, or one of the others is done.
func (g *gate) wait(done ...<-chan struct{}) {
	g.mu.Lock()
	turned := g.turned
	g.mu.Unlock()
	var timer <-chan time.Time
	if g.breaker.IsOpen() {
		t := time.NewTimer(max(time.Until(g.upcoming()), time.Millisecond))
		defer t.Stop()
		timer = t.C
	} else if g.breaker.IsClosed() {
		return
	}
	done = append(done, nil, nil)
	select {
	case <-turned:
	case <-timer:
	case <-done[0]:
	case <-done[1]:
	}
}

// shut is the error of a call that is not attempted.
func (g *gate) shut() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Errorf("%w: no attempt is made for a moment, as the last ones failed: %s", ErrUnavailable, g.cause.Error())
}
