// Package outage decides what a process does while Redis is unreachable. A circuit breaker says
// when Redis counts as unreachable. A share of the limit bounds what calls may use until it answers.
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
	// oneEvent is how long failures count as one failure, because one cause breaks many calls at
	// the same moment, and also the attempt that follows at once.
	oneEvent = 200 * time.Millisecond

	// breath is the least time between two attempts to reach Redis during an outage.
	breath = 50 * time.Millisecond
)

// Config is what a Breaker needs.
type Config struct {
	Failures int           // the breaker opens after this many failures in a row
	Probe    time.Duration // mean time between two attempts to reach Redis while the breaker is open
	Name     string        // of the limit, for the log
	Policy   string        // what calls do while the breaker is open, for the log
	Logger   *slog.Logger
	Silent   bool // there is no Logger: warn on slog.Default() if Redis was never reached
}

// Breaker is a circuit breaker for requests to Redis. It opens after some failures in a row. While
// it is open, it lets one attempt at a time through, and closes when an attempt succeeds. It is
// safe for concurrent use.
type Breaker struct {
	cfg      Config
	interval time.Duration // from one attempt to the next, begin to begin
	known    atomic.Bool   // Redis has answered once
	strange  sync.Once     // a warning was logged that Redis has never answered

	mu       sync.Mutex
	cause    error     // the last failure
	failures int       // counted failures since the last answer
	counted  time.Time // when the last failure was counted
	opened   time.Time // when the breaker opened; zero while it is closed
	trying   bool      // the breaker is open, and an attempt is in flight
	next     time.Time // the earliest time of the next attempt while the breaker is open
}

// NewBreaker returns a closed Breaker. jitter returns numbers from 0 to 1.
func NewBreaker(cfg Config, jitter func() float64) *Breaker {
	// Each process has its own interval, so that processes do not probe at the same moments.
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

// Open reports whether Redis counts as unreachable.
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
	case ctx.Err() != nil && err != nil: // the caller gave up, which says nothing about Redis
		b.trying = false
	case b.Hopeless(err): // not an outage: the calls get the error
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

// failure counts a failure. The Breaker must be locked.
func (b *Breaker) failure(now time.Time, err error) {
	b.cause = err
	if b.failures == 0 || now.Sub(b.counted) >= oneEvent {
		b.failures, b.counted = b.failures+1, now
	}
	if rested := now.Add(breath); b.next.Before(rested) {
		b.next = rested
	}
}

// Hopeless reports whether an error is permanent: credentials that Redis has never accepted, a
// setting of Redis with which no turn can be granted, or a closed client.
func (b *Breaker) Hopeless(err error) bool {
	return errors.Is(err, fault.ErrDenied) && !b.known.Load() || errors.Is(err, fault.ErrNoEffects) || errors.Is(err, redis.ErrClosed)
}

// effects says what calls do under each policy.
var effects = map[string]string{
	"local": "continue at this process's part of the rate",
	"wait":  "wait until Redis answers",
	"fail":  "fail with ErrUnavailable",
	"open":  "continue without a limit",
}

// open opens a breaker that is closed. It must be locked.
func (b *Breaker) open() {
	b.opened = time.Now()
	b.next = b.opened.Add(b.interval)
	if !b.known.Load() && b.cfg.Silent {
		b.strange.Do(b.warnOfStranger)
	}
	b.cfg.Logger.Warn("fleetpace: Redis unreachable; the outage policy is in effect, and the log will say when it ends",
		"limit", b.cfg.Name, "policy", b.cfg.Policy, "calls", effects[b.cfg.Policy], "error", b.cause)
}

// close closes the breaker after a successful attempt. An answer to a call that was sent before the
// breaker opened does not close it. The Breaker must be locked.
func (b *Breaker) close() {
	if b.opened.IsZero() || !b.trying {
		return
	}
	b.cfg.Logger.Info("fleetpace: Redis reachable again; the fleet shares the limit again",
		"limit", b.cfg.Name, "outage", time.Since(b.opened).Round(time.Millisecond))
	b.opened, b.trying = time.Time{}, false
}

// warnOfStranger warns that this process has never reached Redis, for example because its address
// is wrong. It warns on slog.Default(), even without a Logger: otherwise calls continue under the
// policy, and nothing shows that the fleet has no common limit. The Breaker must be locked.
func (b *Breaker) warnOfStranger() {
	slog.Default().Warn("fleetpace: never connected to Redis since the start; this process is NOT sharing its limit."+
		" Check the address and the credentials. Set Config.Logger to log more",
		"limit", b.cfg.Name, "policy", b.cfg.Policy, "calls", effects[b.cfg.Policy], "error", b.cause)
}

// Shut returns the error for a call that is not attempted because the breaker is open.
func (b *Breaker) Shut() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Errorf("%w: the circuit breaker is open, and the next attempt is in up to %v; last error: %s",
		fault.ErrUnavailable, b.cfg.Probe*3/2, b.cause.Error())
}
