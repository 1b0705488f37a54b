package asker

import (
	"maps"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Still lets no call of some limits be made by this process before a moment, while Redis is
// away: a pause did not reach it. Turns that were not used, and are due before, are void.
func (a *Asker) Still(limits []*wire.Limit, until time.Time) {
	a.lock()
	defer a.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(a.still, func(_ string, end time.Time) bool { return now.After(end) })
	for _, l := range limits {
		key := l.Keys[0]
		a.still[key] = later(a.still[key], until)
		a.takeBack(key, func(t *queue.Turn) bool { return t.Due.Before(until) })
	}
}

// End ends the calls that need a limit of a name, with Errors.Closed, and lets none join any
// more. Other calls go on.
func (a *Asker) End(name *wire.Name) {
	a.lock()
	defer a.mu.Unlock()
	name.Ended.Store(true)
	now := time.Now()
	t := a.clock.now(now)
	for _, k := range a.kinds {
		if k.need.ended() {
			k.queue.Fail(a.cfg.Errors.Closed)
			a.plan(k, t, now)
		}
	}
	if pulse := a.names[name]; pulse != nil {
		pulse.used = time.Time{}
		a.hurry()
	}
	a.kick()
}

// ended reports whether a limit of the need belongs to a name that has ended.
func (n *Need) ended() bool {
	if n.Limit.Name.Ended.Load() {
		return true
	}
	for _, p := range n.More {
		if p.Limit.Name.Ended.Load() {
			return true
		}
	}
	return false
}
