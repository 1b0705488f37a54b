package asker

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Who was told that there is a slot has a moment to come: the message may be lost. And nobody is told
// that a pause ends. So a process whose reply says so looks at the limit after that, unless it has
// heard otherwise meanwhile, and who has not come is told again.
const (
	slack     = 100 * time.Millisecond // after that moment
	mostLooks = 12                     // limits, in one script call
)

// looks notes that somebody is to look at limits of slots, if their last replies say so. The Asker
// must be locked.
func (a *Asker) looks(limits []*wire.Limit) {
	for _, l := range limits {
		if l.Kind != "s" {
			continue
		}
		after := l.Looks()
		if after <= 0 || a.closed {
			delete(a.rooms, l)
			continue
		}
		a.rooms[l] = time.Now().Add(after + slack)
		if !a.awaits {
			a.awaits = true
			a.busy.Go(a.await)
		}
	}
}

// await looks for as long as there is something to look at.
func (a *Asker) await() {
	for a.rest(slack) {
		due, over := a.dueLooks()
		if over {
			return
		}
		if len(due) > 0 {
			a.look(due)
		}
	}
}

// dueLooks are the limits that it is time to look at; over: there are none, now or later.
func (a *Asker) dueLooks() (due []*wire.Limit, over bool) {
	now := time.Now()
	a.lock()
	defer a.mu.Unlock()
	if a.away != nil { // all ask again when Redis is back
		clear(a.rooms)
	}
	for l, at := range a.rooms {
		if len(due) < mostLooks && !at.After(now) {
			due = append(due, l)
		}
	}
	a.awaits = len(a.rooms) > 0
	return due, !a.awaits
}

func (a *Asker) look(limits []*wire.Limit) {
	items := make([]wire.Left, len(limits))
	for i := range items {
		items[i] = wire.Left{Limit: i, Look: true}
	}
	err := a.onceOnly(a.life, limits, func(c *wire.Call) (wire.Reply, error) {
		reply, _, err := wire.Leave(a.life, c, items)
		return reply, err
	})
	a.lock()
	defer a.mu.Unlock()
	for _, l := range limits {
		delete(a.rooms, l)
	}
	if err == nil {
		a.looks(limits)
	}
}
