package transport

import (
	"context"
	"sync"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// levels lets limits continue with what responses say is left. The provider has not counted the requests
// yet that are under way, so their costs are taken off.
type levels struct {
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

// hear takes in what a response says is left of the limits of its request.
func (l *levels) hear(ctx context.Context, c *call, windows []headers.Window) (err error) {
	if l == nil || !c.told {
		return nil
	}
	for i, limiter := range c.limits {
		kind := limiter.Limit().Kind()
		if kind == reserve.KindSlots || kind == reserve.KindWarmingUp {
			continue
		}
		for _, w := range windows {
			if w.Remaining < 0 || !c.concerns(i, w) {
				continue
			}
			l.mu.Lock()
			left := w.Remaining - float64(l.underWay[limiter.Group()+" "+limiter.String()])
			l.mu.Unlock()
			if e := limiter.Told(ctx, max(0, left)); e != nil {
				err = e
			}
		}
	}
	return err
}
