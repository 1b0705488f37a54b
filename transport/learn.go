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
	raiseBy    = 1.1              // the most that one step up is
	raiseEvery = time.Minute      // and the least time between two, over the fleet
	toldFor    = time.Hour        // what was told counts for as long as this
	renewEvery = 15 * time.Minute // where it is told again
	retryAfter = time.Second      // after a limiter failed
	sameRate   = 1e-3             // rates closer than this part are one: limiters round
	mostKnown  = 1024             // limits that are remembered, by last use
)

// learner lets limits follow what providers tell.
//
// All processes of a fleet hear the same and have one limit, and none knows of
// the others. So each looks at the limit once per raiseEvery, and raises it only
// if it is as it was at its last look: of two raises the second one's process
// would have seen the first, so they are that far apart. A lower limit needs no
// such care: whoever hears of it first sets it, and the others set the same.
type learner struct {
	ceiling reserve.Limit // zero: the limiter's own
	least   float64       // permits per second
	known   *lru.Cache[string, *lesson]
	log     *slog.Logger
}

// lesson is what this process knows of a limit.
type lesson struct {
	mu     sync.Mutex
	looked time.Time // when it last looked at the fleet's rate
	rate   float64   // that it saw then, or set
	set    time.Time // when it last set the rate
	not    time.Time // it does not ask the limiter before this
}

func newLearner(ceiling reserve.Limit, maxPause time.Duration, log *slog.Logger) *learner {
	known, err := lru.New[string, *lesson](mostKnown)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &learner{ceiling: ceiling, least: 1 / maxPause.Seconds(), known: known, log: log}
}

// hear tells the learner of the windows of an answer.
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

// follow lets a limit follow what was told of it.
func (l *learner) follow(ctx context.Context, limiter *reserve.Limiter, told told) {
	own := limiter.Limit().Rate()
	ceiling := own
	if l.ceiling != (reserve.Limit{}) {
		ceiling = l.ceiling.Rate()
	}
	target := min(max(told.rate, l.least), ceiling)

	k := l.lesson(limiter)
	if !k.mu.TryLock() {
		return // somebody is at it, with an answer as good as this one
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
		l.log.Error("the limit could not follow what the provider tells", "limit", limiter.String(), "error", err)
	}
}

// next is the rate to set, if any, where the fleet goes by rate and the provider
// tells target.
func next(rate, target, own float64, steady, old bool) (float64, bool) {
	switch {
	case lower(target, rate):
		return target, true
	case lower(rate, target):
		return min(target, rate*raiseBy), steady
	default: // as it should be; but what keeps it from being the limiter's own expires
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
		l.log.Info("the limit follows what the provider tells", "limit", limiter.String(), "from", reserve.PerSecond(k.rate), "to", limit)
	}
	k.rate, k.set = rate, now
	return nil
}

// lesson of the limiter, which is known by its text: [reserve.Limiter.For] makes a new Limiter
// of the same limit for each use.
func (l *learner) lesson(limiter *reserve.Limiter) *lesson {
	k := &lesson{}
	if before, ok, _ := l.known.PeekOrAdd(limiter.String(), k); ok {
		l.known.Get(limiter.String()) // marks the use
		return before
	}
	return k
}

// told is what a provider tells of a limit.
type told struct {
	rate  float64 // permits per second
	burst int     // permits
}

// toldLimit is the strictest of some windows, for a limiter of this burst; not ok if none of
// them says how many it allows in which time.
func toldLimit(windows []headers.Window, burst int) (strictest told, ok bool) {
	strictest = told{rate: math.Inf(1), burst: burst}
	for _, w := range windows {
		if w.Rate() <= 0 {
			continue
		}
		permits := w.Limit
		most := int(max(1, min(permits, float64(burst))))
		if !w.Refills {
			// A bucket's burst may fall into a window besides all that the rate
			// gives in it.
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
