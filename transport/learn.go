package transport

import (
	"context"
	"log/slog"
	"math"
	"math/bits"
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

	// An overloaded provider halves the rate, down to an eighth of the limiter's own. The rate comes back in steps. It
	// stays in force for longer than a stated limit: so all processes see why it is lower.
	overloadFor  = 90 * time.Minute
	slowDownFor  = 3 * time.Hour // after slow_down
	halveEvery   = 4 * time.Second
	returnEvery  = 10 * time.Second
	returnBy     = 1.0 / 4 // of the own rate, at most: from an eighth, all of it is back after four steps; from less, after more
	leastOfOwn   = 1.0 / 8
	rampEvery    = 15 * time.Minute // after slow_down, above rampFrom
	rampBy       = 1.5
	rampFrom     = 1e6 / 60.0 // tokens per second
	lastAnswers  = 20         // of the fleet
	leastAnswers = 5          // of a process
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
	share   float64       // the part of a stated limit to follow
	least   float64       // the lowest rate, in permits per second
	known   *lru.Cache[string, *lesson]
	log     *slog.Logger
}

// lesson is what this process knows of a limit.
type lesson struct {
	mu     sync.Mutex
	looked time.Time // when this process last looked at the fleet's rate
	rate   float64   // the rate that it saw then, or set since
	burst  int       // the same
	set    time.Time // when it last set the rate
	not    time.Time // the limiter is not asked before this moment

	slow      time.Duration // overloadFor or slowDownFor, if the rate is lower for that
	halved    time.Time     // when the rate was halved
	failed    time.Time     // when the provider was last overloaded
	answers   uint32        // the last ones, 1 for one of an overloaded provider; the newest is the lowest bit
	processes int           // of the fleet
}

// halves takes in whether an answer says that the provider is overloaded, and reports whether to halve the rate. One
// such answer is chance. More than a tenth of the last ones are not. The header of a body was counted before, as a
// success: a failure in the body replaces a success.
func (k *lesson) halves(o overload, body bool, now time.Time) bool {
	if !body {
		k.answers <<= 1
	}
	if o == no {
		return false
	}
	k.failed = now
	k.answers |= k.answers + 1 // the lowest zero becomes a one
	last := max(leastAnswers, lastAnswers/max(1, k.processes))
	failed := bits.OnesCount32(k.answers & (1<<last - 1))
	return (o == slowDown || failed > 1 && 10*failed > last) && now.Sub(k.halved) >= halveEvery
}

// looks returns how long the process does not look at the limit.
func (k *lesson) looks() time.Duration {
	switch {
	case k.slow == 0:
		return raiseEvery
	case k.ramps():
		return rampEvery
	}
	return returnEvery
}

// ramps reports whether the rate returns as slowly as OpenAI asks for.
func (k *lesson) ramps() bool { return k.slow == slowDownFor && !lower(k.rate, rampFrom) }

func newLearner(ceiling reserve.Limit, share float64, maxPause time.Duration, log *slog.Logger) *learner {
	known, err := lru.New[string, *lesson](mostKnown)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &learner{ceiling: ceiling, share: share, least: 1 / maxPause.Seconds(), known: known, log: log}
}

// hear lets the limits follow the windows of a response, and slows them if the provider is overloaded. Windows of a body
// state the limit that is in force, and are followed up at once, too.
func (l *learner) hear(ctx context.Context, c *call, windows []headers.Window, o overload, body bool) {
	for i, limiter := range c.limits {
		if limiter.Limit().Kind() != reserve.KindPaced || !c.told {
			continue
		}
		o := o
		if c.account[i] && !c.rests[i] {
			o = no // a limit of the whole account, of which a model is overloaded
		}
		concerned := slices.DeleteFunc(slices.Clone(windows), func(w headers.Window) bool { return !c.concerns(i, w) })
		for i := range concerned {
			concerned[i].Limit *= l.share
		}
		told, ok := toldLimit(concerned, limiter.Limit().MaxBurst())
		if told.exact = body && ok; told.exact {
			told.burst = bucketBurst(limiter.Limit(), concerned)
		}
		l.follow(ctx, limiter, told, ok, o, body)
	}
}

// follow lets a limit follow what a response states, if it states a limit.
func (l *learner) follow(ctx context.Context, limiter *reserve.Limiter, told told, ok bool, o overload, body bool) {
	own := limiter.Limit().Rate()
	ceiling := own
	if l.ceiling != (reserve.Limit{}) {
		ceiling = l.ceiling.Rate()
	}
	target := min(max(told.rate, l.least), ceiling)
	if !ok {
		target = own
	}

	k := l.lesson(limiter)
	if !k.mu.TryLock() {
		return // another call is at it, with a response that is as new
	}
	defer k.mu.Unlock()
	now := time.Now()
	halves := k.halves(o, body, now)
	rested := now.Sub(k.looked) >= k.looks()
	differs := lower(target, k.rate) || told.exact && (told.burst < k.burst || k.slow == 0 && lower(k.rate, target))
	if now.Before(k.not) || !halves && !ok && k.slow == 0 || !halves && !rested && !differs {
		return
	}
	state, err := limiter.State(ctx)
	if err == nil {
		steady := rested && !k.looked.IsZero() && same(state.Rate, k.rate)
		k.looked, k.rate, k.burst, k.processes, k.slow = now, state.Rate, state.Burst, int(state.Processes), slowed(state)
		if !ok {
			told.burst = state.Burst
		}
		since := k.slow - state.SetFor // some process set the rate
		switch {
		case halves && k.slow > 0 && since < halveEvery:
			k.halved = now.Add(-since)
		case halves:
			k.halved = now
			if k.slow = max(k.slow, overloadFor); o == slowDown {
				k.slow = slowDownFor
			}
			err = l.set(ctx, limiter, k, max(state.Rate/2, min(state.Rate, own*leastOfOwn)), told.burst, now)
		case k.slow > 0 && lower(state.Rate, target):
			if since >= k.looks() && now.Sub(k.failed) >= returnEvery {
				err = l.set(ctx, limiter, k, min(k.returns(own), target), told.burst, now)
			} else if told.exact && told.burst < state.Burst {
				err = l.set(ctx, limiter, k, state.Rate, told.burst, now)
			}
		default:
			k.slow = 0
			old := now.Sub(k.set) >= renewEvery
			to, change := next(state.Rate, target, own, steady, old)
			if told.exact {
				to, change = target, change || lower(state.Rate, target) || told.burst != state.Burst || old && told.burst != limiter.Limit().MaxBurst()
			}
			if change {
				err = l.set(ctx, limiter, k, to, told.burst, now)
			}
		}
	}
	if err != nil {
		k.looked, k.not = time.Time{}, now.Add(retryAfter)
		l.log.Error("transport: the limit could not be set to what the provider states; the next response tries again", "limit", limiter.String(), "error", err)
	}
}

// slowed returns for how long the rate was set because the provider is overloaded, or 0.
func slowed(state reserve.State) time.Duration {
	switch {
	case state.SetFor > overloadFor:
		return slowDownFor
	case state.SetFor > toldFor:
		return overloadFor
	}
	return 0
}

// returns returns the next rate after an overload.
func (k *lesson) returns(own float64) float64 {
	step := min(k.rate, own*returnBy) // from an eighth to a quarter first: little was learned if responses come seldom
	switch {
	case k.slow != slowDownFor:
		return k.rate + step
	case k.ramps():
		return k.rate * rampBy
	}
	return min(k.rate+step, max(k.rate, rampFrom))
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
	if err := limiter.SetLimit(ctx, limit, max(toldFor, k.slow)); err != nil {
		return err
	}
	if !same(rate, k.rate) || burst != k.burst {
		why := "transport: the limit was set to what the provider states"
		if k.slow > 0 {
			why = "transport: the limit was set to a part of it, as the provider is or was overloaded"
		}
		l.log.Info(why, "limit", limiter.String(), "from", reserve.PerSecond(k.rate).Burst(k.burst), "to", limit)
	}
	k.rate, k.burst, k.set = rate, burst, now
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

// slows reports whether the limit is lower because the provider is overloaded.
func (l *learner) slows(limiter *reserve.Limiter) bool {
	if l == nil {
		return false
	}
	k := l.lesson(limiter)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.slow > 0
}

func same(a, b float64) bool { return math.Abs(a-b) <= sameRate*max(a, b) }

func lower(a, b float64) bool { return a < b && !same(a, b) }
