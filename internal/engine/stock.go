package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// LeaseStats counts the permits that a process took ahead of its calls. Taken is the sum of the other counts
// and of the permits that the process still holds.
type LeaseStats struct {
	Taken    int64 // from the bucket
	Used     int64 // by calls
	Returned int64 // to the bucket
	Lapsed   int64 // Nobody used them in time, or a pause revoked them.
}

// stock is the permits of a lease. Calls draw them without the lock of the Process, so it has its own.
type stock struct {
	mu     sync.Mutex
	grants []grant   // the first is used first
	least  int64     // With so few permits left, a call asks for more.
	asked  bool      // A call has done so, or a batch asks.
	closed bool      // Calls wait: calls that come now must not pass them.
	trust  time.Time // Until then the process surely counts as alive.
	drawn  time.Time // when a call last drew permits, or asked for a turn
	stats  LeaseStats
}

// grant is permits that were spent together, and how many of them are left.
type grant struct {
	turn Turn
	left int64
}

// stockOf returns the stock of a limit. It returns nil if the limit never had one.
func stockOf(l *wire.Limit) *stock {
	of, _ := l.Ahead.Load().(*lease)
	if of == nil {
		return nil
	}
	return &of.stock
}

// draw gives a call permits that were taken ahead of it. It needs no lock of the Process. few says that the
// caller has to call Engine.askAhead.
func (n *Need) draw(now time.Time) (t Turn, ok, few bool) {
	s := stockOf(n.Limit)
	if s == nil || !n.leases() {
		return Turn{}, false, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || n.Limit.Name.Ended.Load() || n.Limit.Name.Other.Load() != nil || now.After(s.trust) {
		return Turn{}, false, false
	}
	if !s.take(n.Cost, now, &t) {
		s.closed = true // until this call has its turn: it joins next
		return Turn{}, false, false
	}
	if !s.asked && s.left() <= s.least {
		s.asked, few = true, true
	}
	return t, true, few
}

// ahead reports whether a call is likely to find permits ahead of it.
func (n *Need) ahead() bool {
	s := stockOf(n.Limit)
	if s == nil || !n.leases() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && len(s.grants) > 0
}

// take takes permits of one grant, as a turn. It reports false if no grant has enough. The stock must be
// locked.
func (s *stock) take(permits int64, now time.Time, t *Turn) bool {
	for len(s.grants) > 0 && now.After(s.grants[0].turn.Until.Add(-Tolerance)) {
		s.stats.Lapsed += s.grants[0].left
		s.grants = slices.Delete(s.grants, 0, 1)
	}
	for i := range s.grants {
		g := &s.grants[i]
		if g.left < permits {
			continue
		}
		*t = g.turn
		t.Used, s.drawn = now, now
		s.stats.Used += permits
		g.left -= permits
		if t.Permit -= g.left; g.left == 0 {
			s.grants = slices.Delete(s.grants, i, i+1)
		}
		return true
	}
	return false
}

// left returns the number of permits. The stock must be locked.
func (s *stock) left() (permits int64) {
	for i := range s.grants {
		permits += s.grants[i].left
	}
	return permits
}

// lacks returns how many permits to ask for, if calls need as many as wanted says.
func (s *stock) lacks(wanted int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.least = wanted / 4
	if left := s.left(); left <= s.least {
		return wanted - left
	}
	return 0
}

// asks notes whether a batch asks for more.
func (s *stock) asks(asks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = asks
}

// use notes that calls ask for turns now.
func (s *stock) use(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn = now
}

// keep adds permits that were asked for, or that a call did not use.
func (s *stock) keep(t *Turn, permits int64, trust time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants = append(s.grants, grant{*t, permits})
	s.stats.Taken += permits
	s.trust = trust
}

// trusts notes until when the process surely counts as alive.
func (s *stock) trusts(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trust = until
}

// open says whether calls that come now may draw permits. They may not while others wait.
func (s *stock) open(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = !open
}

// passOn gives permits to calls that wait in their lines, in the order in which the calls came.
func (s *stock) passOn(lines []*line, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var t Turn
	for {
		var to *line
		for _, l := range lines {
			if len(l.waiting) > 0 && (to == nil || l.waiting[0].joined.Before(to.waiting[0].joined)) {
				to = l
			}
		}
		if s.closed = to != nil; !s.closed || !s.take(to.need.Cost, now, &t) {
			return
		}
		to.give(&t, now)
	}
}

// has reports whether there are permits, and when a call last drew some, or asked.
func (s *stock) has() (drawn time.Time, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn, len(s.grants) > 0
}

// change applies a change to the turns of the permits.
func (s *stock) change(change func(*Turn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.grants {
		change(&s.grants[i].turn)
	}
}

// drop drops permits whose turns are revoked: void is true for them.
func (s *stock) drop(void func(*Turn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.left()
	s.grants = slices.DeleteFunc(s.grants, func(g grant) bool { return void(&g.turn) })
	s.stats.Lapsed += had - s.left()
}

// takeLast removes and returns the permits of the last ask, if they can go back to the bucket. It returns 0
// permits if they cannot.
func (s *stock) takeLast() (t Turn, permits int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.grants) - 1; i >= 0; i-- {
		if t, permits = s.grants[i].turn, s.grants[i].left; t.Ask == "" {
			continue
		}
		if *t.spent = max(*t.spent, t.Permit-permits); !t.goBack(permits) {
			break
		}
		s.grants = slices.Delete(s.grants, i, i+1)
		return t, permits
	}
	return Turn{}, 0
}

// went notes that some returned permits are in the bucket again. The others are lost.
func (s *stock) went(back, of int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Returned += back
	s.stats.Lapsed += of - back
}

// counts returns the counts. If the lease ends, it resets them.
func (s *stock) counts(ends bool) (all LeaseStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all = s.stats; ends {
		s.stats = LeaseStats{}
	}
	return all
}
