package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Part is permits of one limit.
type Part struct {
	Limit *wire.Limit
	Cost  int64
}

// Need is what a call needs: the same for all calls of a line.
type Need struct {
	Part           // of one limit …
	More    []Part // … and of others
	Settles bool   // What the call really costs is told later.
	Now     bool   // The call does not wait.
	Flow    wire.Flow

	// ID names a booking: a call that may be made by another process. Empty: the call has none. A call
	// with an ID whose turn is farther away than its Patience is booked, and does not wait here.
	ID       string
	Patience time.Duration
	number   int64 // It tells calls with IDs apart.
}

// forever is the patience of a call that waits in its process whatever happens.
const forever = 100 * 365 * 24 * time.Hour

func (n *Need) parts() []Part { return append([]Part{n.Part}, n.More...) }

// each calls f for all parts.
func (n *Need) each(f func(Part)) {
	f(n.Part)
	for _, p := range n.More {
		f(p)
	}
}

// any reports whether f is true of a limit of the need.
func (n *Need) any(f func(*wire.Limit) bool) bool {
	return f(n.Limit) || slices.ContainsFunc(n.More, func(p Part) bool { return f(p.Limit) })
}

// hasSlots reports whether one of its limits is of slots.
func (n *Need) hasSlots() bool { return n.any((*wire.Limit).HasSlots) }

// ended reports whether a limit of the need belongs to a name that has ended.
func (n *Need) ended() bool {
	return n.any(func(l *wire.Limit) bool { return l.Name.Ended.Load() })
}

// leases reports whether turns of it are taken ahead.
func (n *Need) leases() bool {
	return n.Limit.Lease > 0 && n.Limit.Paced() && len(n.More) == 0 && !n.Settles && n.ID == ""
}

// doing is what a call holds slots for, as others see it.
func (n *Need) doing() string {
	if n.ID != "" {
		return n.ID
	}
	return n.Flow.Name
}

// limitsOf returns the limits of a call, each once.
func limitsOf(parts []Part) (limits []*wire.Limit) {
	for _, p := range parts {
		if !slices.Contains(limits, p.Limit) {
			limits = append(limits, p.Limit)
		}
	}
	return limits
}

// key tells lines apart.
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
