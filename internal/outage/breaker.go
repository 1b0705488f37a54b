// Package outage is what a process does while Redis is away: a circuit breaker says when that
// is so, and a share of the limit is what its calls may use meanwhile.
package outage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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

// Config is what a Breaker needs.
type Config struct {
	Failures int           // in a row: then it opens
	Probe    time.Duration // between two attempts to reach Redis once it is open, on average
	Name     string        // of the limit, and Policy what calls do meanwhile: for the log
	Policy   string
	Logger   *slog.Logger
	Silent   bool // nobody asked for a log: a Redis that was never reached is told on slog.Default()
}

// Breaker stands before Redis: it opens after some failures in a row, lets one attempt at a time
// through while it is open, and closes when one succeeds. It is safe for concurrent use.
type Breaker struct {
	cfg      Config
	interval time.Duration // from one attempt to the next, begin to begin
	known    atomic.Bool   // Redis has answered once
	strange  sync.Once     // … or somebody was told that it has not

	mu       sync.Mutex
	cause    error     // the last failure
	failures int       // since the last answer, as far as they count
	counted  time.Time // the last of those
	opened   time.Time // zero: closed
	trying   bool      // while it is open: an attempt was let through whose outcome is not recorded
	next     time.Time // attempt, while it is open
}

// NewBreaker returns one that is closed. jitter returns numbers from 0 to 1.
func NewBreaker(cfg Config, jitter func() float64) *Breaker {
	// Each process has an interval of its own, so that they do not come in step.
	return &Breaker{cfg: cfg, interval: time.Duration((0.5 + jitter()) * float64(cfg.Probe))}
}

// Pass reports whether an attempt may be made now; its outcome must be recorded.
func (b *Breaker) Pass() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return true
	}
	now := time.Now()
	if b.trying || now.Before(b.next) {
		return false
	}
	b.trying, b.next = true, now.Add(b.interval)
	return true
}

// Open reports whether Redis counts as away.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.opened.IsZero()
}

// Record notes the outcome of an attempt.
func (b *Breaker) Record(ctx context.Context, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ctx.Err() != nil && err != nil: // the caller left, which says nothing of Redis
		b.trying = false
	case b.Hopeless(err): // that is no outage; the calls are to hear of it
		b.close()
	case fault.Away(err):
		if b.failure(time.Now(), err); b.failures >= b.cfg.Failures && b.opened.IsZero() {
			b.open()
		}
		b.trying = false
	default:
		b.known.Store(true)
		b.failures = 0
		b.close()
	}
}

// failure counts one. The Breaker must be locked.
func (b *Breaker) failure(now time.Time, err error) {
	b.cause = err
	if b.failures == 0 || now.Sub(b.counted) >= oneEvent {
		b.failures, b.counted = b.failures+1, now
	}
	if rested := now.Add(breath); b.next.Before(rested) {
		b.next = rested
	}
}

// Hopeless reports whether an error will not go away: wrong credentials, from a
// Redis that has never accepted them, a setting with which no turn can be given, or a
// client that was closed.
func (b *Breaker) Hopeless(err error) bool {
	return errors.Is(err, fault.ErrDenied) && !b.known.Load() || errors.Is(err, fault.ErrNoEffects) || errors.Is(err, redis.ErrClosed)
}

// open opens a breaker that is closed. It must be locked.
func (b *Breaker) open() {
	b.opened = time.Now()
	b.next = b.opened.Add(b.interval)
	if !b.known.Load() && b.cfg.Silent {
		b.strange.Do(b.warnOfStranger)
	}
	b.cfg.Logger.Warn("fleetpace: Redis gives no turns; calls follow the policy until it is back",
		"limit", b.cfg.Name, "policy", b.cfg.Policy, "error", b.cause)
}

// close closes a breaker whose attempt has succeeded. An answer to a call from before it opened
// closes nothing. The Breaker must be locked.
func (b *Breaker) close() {
	if b.opened.IsZero() || !b.trying {
		return
	}
	b.cfg.Logger.Info("fleetpace: Redis gives turns again",
		"limit", b.cfg.Name, "away", time.Since(b.opened).Round(time.Millisecond))
	b.opened, b.trying = time.Time{}, false
}

// warnOfStranger tells whoever runs the program of a Redis that was never reached, such as
// at a wrong address, though nobody asked for a log: without it, calls go on under the
// policy, and nothing shows that the fleet has no common limit. The Breaker must be locked.
func (b *Breaker) warnOfStranger() {
	slog.Default().Warn("fleetpace: Redis was never reached; calls follow the policy until it is. Set Config.Logger to hear more",
		"limit", b.cfg.Name, "policy", b.cfg.Policy, "error", b.cause)
}

// Shut is the error of a call that is not attempted.
func (b *Breaker) Shut() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("%w: no attempt is made for a moment, as the last ones failed: %s", fault.ErrUnavailable, b.cause.Error())
}
