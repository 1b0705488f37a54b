package transport

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// levels lets limits continue with what responses say is left. Providers state it as of the moment at which
// they admit a request, so the costs of requests that were sent later are taken off.
type levels struct {
	learner  *learner // nil without Config.Learn
	mu       sync.Mutex
	underWay map[string]*list.List // of flight, by limit, in the order of sending; guarded by mu
}

// flight is what a request without a response costs at a limit.
type flight struct {
	sent time.Time
	cost int
}

// sends notes that a request is under way, until over is called.
func (l *levels) sends(c *call) (over func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	flights := make([]*list.Element, len(c.limits))
	for i, limiter := range c.limits {
		name := limiter.Group() + " " + limiter.String()
		if l.underWay[name] == nil {
			l.underWay[name] = list.New()
		}
		flights[i] = l.underWay[name].PushBack(flight{time.Now(), c.Costs[i]})
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, limiter := range c.limits {
			name := limiter.Group() + " " + limiter.String()
			if l.underWay[name].Remove(flights[i]); l.underWay[name].Len() == 0 {
				delete(l.underWay, name)
			}
		}
	}
}

// mostDelay is how long a request is on its way to the provider, at most.
const mostDelay = 300 * time.Millisecond

// later is what requests under way cost that were sent after a moment.
func (l *levels) later(limiter *reserve.Limiter, moment time.Time) (cost float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	flights := l.underWay[limiter.Group()+" "+limiter.String()]
	if flights == nil {
		return 0
	}
	for e := flights.Back(); e != nil; e = e.Prev() {
		f := e.Value.(flight) // nothing else is in the list
		if !f.sent.After(moment) {
			break
		}
		cost += float64(f.cost)
	}
	return cost
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
			admitted := sent
			if w.Refills { // until the middle of its way and back, others may have overtaken it; forOthers bears that
				admitted = sent.Add(min(time.Since(sent)/2, mostDelay))
			}
			left := w.Remaining - l.later(limiter, admitted)
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
