package asker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/queue"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// Part is permits of one limit.
type Part struct {
	Limit *wire.Limit
	Cost  int64
}

// Need is what a call needs: the same for all calls of one kind.
type Need struct {
	Part           // of one limit …
	More    []Part // … and of others
	Settles bool   // what it really costs is told later
	Now     bool   // it does not wait
	Flow    wire.Flow

	// ID is of a booking, or empty: a call that may be made by another process. One whose
	// turn is farther away than its Patience is booked, and does not wait here.
	ID       string
	Patience time.Duration
	number   int64 // tells calls with IDs apart
}

func (n *Need) parts() []Part { return append([]Part{n.Part}, n.More...) }

// slots are which of its limits are of slots; nil: none.
func (n *Need) slots() []bool {
	parts := n.parts()
	if !slices.ContainsFunc(parts, func(p Part) bool { return p.Limit.Kind == "s" }) {
		return nil
	}
	slots := make([]bool, len(parts))
	for i, p := range parts {
		slots[i] = p.Limit.Kind == "s"
	}
	return slots
}

// leases reports whether turns of it are taken ahead.
func (n *Need) leases() bool {
	return n.Limit.Lease > 0 && n.Limit.Kind == "p" && len(n.More) == 0 && !n.Settles && n.ID == ""
}

// key tells kinds apart.
type key struct {
	first        Part
	more         string
	settles, now bool
	number       int64
	flow         wire.Flow
}

func (n *Need) key() key {
	k := key{n.Part, "", n.Settles, n.Now, n.number, n.Flow}
	if len(n.More) > 0 {
		var b strings.Builder
		for _, p := range n.More {
			fmt.Fprintf(&b, "%p %d ", p.Limit, p.Cost)
		}
		k.more = b.String()
	}
	return k
}

// is reports whether a need is that of the kind; false of one with others or an ID, which are
// looked up.
func (k *kind) is(n *Need) bool {
	return k.key == key{first: n.Part, settles: n.Settles, now: n.Now, flow: n.Flow} && len(n.More) == 0 && n.ID == ""
}

// kind is the calls that need the same.
type kind struct {
	key      key
	need     Need
	parts    []Part
	pace     float64 // of its limit, when its forecasts were told; 0: not known
	queue    queue.Queue
	late     time.Duration // the way of the reply whose turn was over when it arrived; 0: none was
	ready    bool          // among those that have something to ask for
	books    bool          // who leaves is booked under the ID …
	unsure   bool          // … and is not expected back
	leaving  int           // flights that take places and turns of it back
	followed bool          // it has waited for those of others to be back
	timer    *time.Timer   // rings when it has; nil: none yet
	rings    time.Time     // when; zero: not set
}

// kind returns the kind of a need. The Asker must be locked.
func (a *Asker) kind(n *Need) *kind {
	if n.ID != "" && n.number == 0 {
		n.number = a.number.Add(1)
	}
	key := n.key()
	k := a.kinds[key]
	if k == nil && a.idle != nil && a.idle.key == key {
		k, a.idle = a.idle, nil
		a.kinds[key] = k
	}
	if k == nil {
		k = &kind{key: key, need: *n, parts: n.parts()}
		k.queue.Limits, k.queue.Slots, k.queue.Missed = len(k.parts), n.slots(), a.missedBy(key)
		a.kinds[key] = k
	}
	return k
}

// follow moves forecasts where permits come at another pace than when they were told. The
// Asker must be locked.
func (k *kind) follow(now time.Time) {
	l := k.need.Limit
	if l.Kind != "p" {
		return
	}
	pace, _ := l.InForce()
	if k.pace > 0 && k.pace != pace {
		k.queue.Scale(now, pace/k.pace)
	}
	k.pace = pace
}

// wants notes that a kind has something to ask for. The Asker must be locked.
func (a *Asker) wants(k *kind) {
	if !k.ready {
		k.ready = true
		a.ready = append(a.ready, k)
	}
}

// plan sets the timer of a kind, or lets it ask, or forgets it. The Asker must be locked.
func (a *Asker) plan(k *kind, t times, now time.Time) {
	if k.queue.Idle() && k.leaving == 0 {
		if k.timer != nil {
			k.timer.Stop()
			k.rings = time.Time{}
		}
		if a.kinds[k.key] == k {
			delete(a.kinds, k.key)
			a.idle = k
		}
		return
	}
	if k.queue.Loose() {
		a.wants(k)
		return
	}
	when, ok := k.queue.When(t.ofQueue())
	switch {
	case !ok:
	case !when.After(now):
		a.wants(k)
	case k.timer == nil:
		k.rings = when
		k.timer = time.AfterFunc(when.Sub(now), func() { a.ring(k) })
	case !k.rings.Equal(when):
		k.rings = when
		k.timer.Reset(when.Sub(now))
	}
}

// ring lets a kind ask whose time has come.
func (a *Asker) ring(k *kind) {
	a.lock()
	defer a.mu.Unlock()
	k.rings = time.Time{}
	now := time.Now()
	a.plan(k, a.clock.now(now), now)
	a.kick()
}
