package transport

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

const (
	raiseBy    = 1.1              // the largest step up, as a factor
	raiseEvery = time.Minute      // the shortest time between two steps up, in the whole fleet
	toldFor    = time.Hour        // how long a stated limit stays in force
	renewEvery = 15 * time.Minute // how often it is renewed while responses still state it
	retryAfter = time.Second      // after Redis could not be reached
	sameRate   = 1e-3             // relative difference of rates that count as equal, because limiters round
	mostKnown  = 1024             // the most limits that are remembered; the least recently used one is dropped
)

// learner lets limits follow what providers state.
//
// All processes of a fleet get the same statements for one limit, and none of them knows of the
// others. So each process looks at the limit once per raiseEvery, and raises it only if it is
// unchanged since its last look. The second of two processes would have seen the first one's raise,
// so two raises are that far apart. A lower limit needs no such care: the first process that learns
// it sets it, and the others set the same.
type learner struct {
	ceiling reserve.Limit // zero: the limiter's own
	least   float64       // the lowest rate, in permits per second
	known   *lru.Cache[string, *lesson]
	log     *slog.Logger
}

// lesson is what this process knows of a limit.
type lesson struct {
	mu     sync.Mutex
	looked time.Time // when this process last looked at the fleet's rate
	rate   float64   // the rate that it saw then, or set since
	set    time.Time // when it last set the rate
	not    time.Time // the limiter is not asked before this moment
}

func newLearner(ceiling reserve.Limit, maxPause time.Duration, log *slog.Logger) *learner {
	known, err := lru.New[string, *lesson](mostKnown)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &learner{ceiling: ceiling, least: 1 / maxPause.Seconds(), known: known, log: log}
}

// hear lets the limits follow the windows of a response.
func (l *learner) hear(ctx context.Context, c *call, windows []headers.Window) {
	for i, limiter := range c.limits {
		if limiter.Limit().Kind() != reserve.KindPaced || !c.told {
			continue
		}
		concerned := slices.DeleteFunc(slices.Clone(windows), func(w headers.Window) bool { return !c.concerns(i, w) })
		if told, ok := toldLimit(concerned, limiter.Limit().MaxBurst()); ok {
			l.follow(ctx, limiter, told)
		}
	}
}

// follow lets a limit follow what a response states.
func (l *learner) follow(ctx context.Context, limiter *reserve.Limiter, told told) {
	own := limiter.Limit().Rate()
	ceiling := own
	if l.ceiling != (reserve.Limit{}) {
		ceiling = l.ceiling.Rate()
	}
	target := min(max(told.rate, l.least), ceiling)

	k := l.lesson(limiter)
	if !k.mu.TryLock() {
		return // another call is at it, with a response that is as new
	}
	defer k.mu.Unlock()
	now := time.Now()
	rested := now.Sub(k.looked) >= raiseEvery
	if now.Before(k.not) || !rested && !lower(target, k.rate) {
		return
	}
	state, err := limiter.State(ctx)
	if err == nil {
		steady := rested && !k.looked.IsZero() && same(state.Rate, k.rate)
		k.looked, k.rate = now, state.Rate
		if to, change := next(state.Rate, target, own, steady, now.Sub(k.set) >= renewEvery); change {
			err = l.set(ctx, limiter, k, to, told.burst, now)
		}
	}
	if err != nil {
		k.looked, k.not = time.Time{}, now.Add(retryAfter)
		l.log.Error("transport: the limit could not be set to what the provider states; the next response tries again", "limit", limiter.String(), "error", err)
	}
}

// next returns the rate to set, if any. The fleet's rate is `rate`, and the provider states
// `target`.
func next(rate, target, own float64, steady, old bool) (float64, bool) {
	switch {
	case lower(target, rate):
		return target, true
	case lower(rate, target):
		return min(target, max(own, rate*raiseBy)), steady
	default: // the rate is right; renew it before it expires
		return target, old && !same(target, own)
	}
}

func (l *learner) set(ctx context.Context, limiter *reserve.Limiter, k *lesson, rate float64, burst int, now time.Time) error {
	limit := reserve.PerSecond(rate).Burst(burst)
	if err := limit.Validate(); err != nil {
		return err
	}
	if err := limiter.SetLimit(ctx, limit, toldFor); err != nil {
		return err
	}
	if !same(rate, k.rate) {
		l.log.Info("transport: the limit was set to what the provider states", "limit", limiter.String(), "from", reserve.PerSecond(k.rate), "to", limit)
	}
	k.rate, k.set = rate, now
	return nil
}

// lesson returns what is known of the limiter. The limiter's text is the key, because
// [reserve.Limiter.For] makes a new Limiter for each use.
func (l *learner) lesson(limiter *reserve.Limiter) *lesson {
	k := &lesson{}
	if before, ok, _ := l.known.PeekOrAdd(limiter.String(), k); ok {
		l.known.Get(limiter.String()) // marks the use
		return before
	}
	return k
}

// rate returns the rate of a limiter, as far as this process knows.
func (l *learner) rate(limiter *reserve.Limiter) float64 {
	if l != nil {
		k := l.lesson(limiter)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.rate > 0 {
			return k.rate
		}
	}
	return limiter.Limit().Rate()
}

// told is a limit that a provider states.
type told struct {
	rate  float64 // permits per second
	burst int     // permits
}

// toldLimit returns the strictest of the windows, for a limiter of this burst. It is not ok if no
// window says how many calls are allowed in which time.
func toldLimit(windows []headers.Window, burst int) (strictest told, ok bool) {
	strictest = told{rate: math.Inf(1), burst: burst}
	for _, w := range windows {
		if w.Rate() <= 0 {
			continue
		}
		permits := w.Limit
		most := int(max(1, min(permits, float64(burst))))
		if !w.Refills {
			// A full bucket's burst may fall into the same window as all permits of
			// the rate.
			permits = max(permits-float64(most-1), permits/2)
		}
		strictest.rate = min(strictest.rate, permits/w.Period.Seconds())
		strictest.burst = min(strictest.burst, most)
		ok = true
	}
	return strictest, ok
}

func same(a, b float64) bool { return math.Abs(a-b) <= sameRate*max(a, b) }

func lower(a, b float64) bool { return a < b && !same(a, b) }
