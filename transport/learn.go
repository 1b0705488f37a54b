package transport

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"reflect"
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
	known   *lru.Cache[any, *lesson]
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
	known, err := lru.New[any, *lesson](mostKnown)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &learner{ceiling: ceiling, least: 1 / maxPause.Seconds(), known: known, log: log}
}

// hear tells the learner of the windows of an answer.
func (l *learner) hear(ctx context.Context, turn Turn, windows []headers.Window) {
	limiter, ok := turn.Limiter.(Adjuster)
	if !ok {
		return
	}
	own := limiter.Limit()
	told, ok := toldLimit(turn, windows, own.MaxBurst())
	if !ok {
		return
	}
	ceiling := own.Rate()
	if l.ceiling != (reserve.Limit{}) {
		ceiling = l.ceiling.Rate()
	}
	target := min(max(told.rate, l.least), ceiling)

	k := l.lesson(limiter)
	if k == nil || !k.mu.TryLock() {
		return // somebody is at it, with an answer as good as this one
	}
	defer k.mu.Unlock()
	now := time.Now()
	rested := now.Sub(k.looked) >= raiseEvery
	if now.Before(k.not) || !rested && !lower(target, k.rate) {
		return
	}
	rate, err := l.fleetRate(ctx, limiter, k, now)
	if err == nil {
		steady := rested && !k.looked.IsZero() && same(rate, k.rate)
		k.looked, k.rate = now, rate
		if to, change := next(rate, target, own.Rate(), steady, now.Sub(k.set) >= renewEvery); change {
			err = l.set(ctx, limiter, k, to, told.burst, now)
		}
	}
	if err != nil {
		k.looked, k.not = time.Time{}, now.Add(retryAfter)
		l.log.Error("the limit could not follow what the provider tells", "limit", name(limiter), "error", err)
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

func (l *learner) set(ctx context.Context, limiter Adjuster, k *lesson, rate float64, burst int, now time.Time) error {
	limit := reserve.PerSecond(rate).Burst(burst)
	if err := limit.Validate(); err != nil {
		return err
	}
	if err := limiter.SetLimit(ctx, limit, toldFor); err != nil {
		return err
	}
	if !same(rate, k.rate) {
		l.log.Info("the limit follows what the provider tells", "limit", name(limiter), "from", reserve.PerSecond(k.rate), "to", limit)
	}
	k.rate, k.set = rate, now
	return nil
}

// fleetRate is the rate that the fleet goes by: the limiter knows, or else what
// this process set is.
func (l *learner) fleetRate(ctx context.Context, limiter Adjuster, k *lesson, now time.Time) (float64, error) {
	if line, ok := limiter.(interface {
		State(context.Context) (reserve.State, error)
	}); ok {
		state, err := line.State(ctx)
		if err != nil {
			return 0, err
		}
		if state.Rate > 0 {
			return state.Rate, nil
		}
	}
	if k.set.IsZero() || now.Sub(k.set) >= toldFor {
		return limiter.Limit().Rate(), nil
	}
	return k.rate, nil
}

// lesson of the limiter, or nil for one that can not be told from others. Those
// that have a text are known by it: [reserve.Limiter.For] makes a new Limiter of
// the same limit for each use.
func (l *learner) lesson(limiter Limiter) *lesson {
	var key any = limiter
	if text, ok := limiter.(fmt.Stringer); ok {
		key = text.String()
	} else if !reflect.ValueOf(limiter).Comparable() {
		return nil
	}
	k := &lesson{}
	if before, ok, _ := l.known.PeekOrAdd(key, k); ok {
		l.known.Get(key) // marks the use
		return before
	}
	return k
}

// told is what a provider tells of a limit.
type told struct {
	rate  float64 // permits per second
	burst int     // permits
}

// toldLimit is the strictest of the windows that concern the turn, for a limiter
// of this burst; not ok if none of them says how many it allows in which time.
func toldLimit(turn Turn, windows []headers.Window, burst int) (strictest told, ok bool) {
	strictest = told{rate: math.Inf(1), burst: burst}
	for _, w := range windows {
		if !turn.concerns(w) || w.Rate() <= 0 {
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

// name of a limiter for people.
func name(limiter Limiter) string {
	if text, ok := limiter.(fmt.Stringer); ok {
		return text.String()
	}
	return fmt.Sprintf("%T", limiter)
}
