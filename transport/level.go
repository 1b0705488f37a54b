package transport

import (
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// levels lets limits continue with what responses say is left. Providers state it as of the moment at which
// they admit a request, so the costs of the requests that are under way are taken off.
type levels struct {
	learner  *learner // nil without Config.Learn
	mu       sync.Mutex
	underWay map[string]int // permits of requests without a response, by limit; guarded by mu
}

// sends notes that a request is under way, or, with -1, that it is no more.
func (l *levels) sends(c *call, change int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, limiter := range c.limits {
		name := limiter.Group() + " " + limiter.String()
		if l.underWay[name] += change * c.Costs[i]; l.underWay[name] == 0 {
			delete(l.underWay, name)
		}
	}
}

// forOthers is the part of a bucket that is left alone: other programs may use it before the next response states that.
const forOthers = 0.1

// hear takes in what a response says is left of the limits of its request. The rest of a window has to last until all
// of it comes back, and a paced limit gets permits until then. hear returns for how long to pause each limit.
func (l *levels) hear(ctx context.Context, c *call, sent time.Time, windows []headers.Window) (waits []time.Duration, err error) {
	waits = make([]time.Duration, len(c.limits))
	if l == nil || !c.told {
		return waits, nil
	}
	for i, limiter := range c.limits {
		kind := limiter.Limit().Kind()
		if kind == reserve.KindSlots || kind == reserve.KindWarmingUp || l.learner.slows(limiter) { // much is left of an overloaded provider
			continue
		}
		for _, w := range windows {
			// Open calls will produce more output than the response counts.
			if w.Remaining < 0 || !c.concerns(i, w) || w.Name == "output-tokens" {
				continue
			}
			l.mu.Lock()
			left := w.Remaining - float64(l.underWay[limiter.Group()+" "+limiter.String()])
			l.mu.Unlock()
			switch {
			case w.Refills:
				rate := w.Rate()
				left += rate*time.Since(sent).Seconds() - w.Limit*forOthers
				if rate > 0 && -left/rate >= 1 {
					waits[i] = max(waits[i], time.Duration(-left/rate*float64(time.Second)))
				}
			case kind == reserve.KindPaced:
				left -= l.learner.rate(limiter) * max(0, (w.Reset-time.Since(sent)).Seconds()-1) // whole seconds, rounded up
			}
			if e := limiter.Told(ctx, max(0, left)); e != nil {
				err = e
			}
		}
	}
	return waits, err
}
