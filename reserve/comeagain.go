package reserve

import (
	"context"
	"slices"

	"github.com/fleetpace/fleetpace/internal/outage"
)

// A call that is given up and made again at once is to have the turn that it would have had.
// So a new call asks once what was given back before it is in the line again; it does not
// wait for what is given back later.

// returns are what is on its way back to a line.
type returns struct {
	gave, came int64         // tickets: so many were given back, so many of them came there
	cancelling bool          // the tickets of a trip
	leaves     []int64       // calls of a Joint, in order
	left       int64         // the last of them so far
	over       chan struct{} // closed when some of it is back; nil: nobody waits for that
}

// returning reports whether something is on its way back. The line must be locked.
func (l *line) returning() bool {
	return len(l.back) > 0 || l.returns.cancelling || len(l.returns.leaves) > 0
}

// arrivedBack reports whether as many tickets, and calls of a Joint, as were on their way back
// once are in the line again. The line must be locked.
func (l *line) arrivedBack(gave, left int64) bool {
	r := &l.returns
	return (r.came >= gave || len(l.back) == 0 && !r.cancelling) && (len(r.leaves) == 0 || r.leaves[0] > left)
}

// returned notes that something is back, and lets calls ask that waited for it. The line must
// be locked.
func (l *line) returned() {
	r := &l.returns
	r.came = r.gave - int64(len(l.back))
	if r.over != nil {
		close(r.over)
		r.over = nil
	}
	if len(l.asks) > 0 {
		l.kick()
	}
}

// ready takes the first batch of requests off the list, without those for which something is
// still to come back. The tickets that were cut from back go before them.
func (l *line) ready() []*ask {
	r := &l.returns
	gone := r.gave - int64(len(l.back))
	n := slices.IndexFunc(l.asks, func(a *ask) bool {
		return a.gave > gone || len(r.leaves) > 0 && a.left >= r.leaves[0]
	})
	if n < 0 {
		return cut(&l.asks)
	}
	n = min(n, maxBatch)
	batch := l.asks[:n:n]
	l.asks = l.asks[n:]
	return batch
}

// leave notes that a call of a Joint is about to give back what it has in lines, until the
// result is called.
func leave(lines []*line) (left func()) {
	names := make([]int64, len(lines))
	for i, l := range lines {
		l.mu.Lock()
		l.core.hold(l)
		l.returns.left++
		names[i] = l.returns.left
		l.returns.leaves = append(l.returns.leaves, names[i])
		l.rides.plain = false
		l.mu.Unlock()
	}
	return func() {
		for i, l := range lines {
			l.mu.Lock()
			r := &l.returns
			at, _ := slices.BinarySearch(r.leaves, names[i])
			r.leaves = slices.Delete(r.leaves, at, at+1)
			l.returned()
			l.mu.Unlock()
			l.core.leave(l)
		}
	}
}

// allBack returns when what is on its way back to the line is there. While Redis is away that
// does not matter.
func (l *line) allBack(ctx context.Context, lead *outage.Breaker) {
	l.mu.Lock()
	gave, left, none := l.returns.gave, l.returns.left, !l.returning()
	l.mu.Unlock()
	for !none {
		turned, own := lead.Turning(), l.core.gate.Turning()
		if lead.Open() || l.core.gate.Open() {
			return
		}
		l.mu.Lock()
		if l.arrivedBack(gave, left) {
			l.mu.Unlock()
			return
		}
		if l.returns.over == nil {
			l.returns.over = make(chan struct{})
		}
		over := l.returns.over
		l.mu.Unlock()
		select {
		case <-over:
		case <-turned:
		case <-own:
		case <-ctx.Done():
			return
		}
	}
}
