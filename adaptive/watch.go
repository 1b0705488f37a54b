package adaptive

import (
	"sync"
	"time"
)

const (
	shares     = 4           // reports of a process in one round
	retryAfter = time.Second // after a trip that failed
)

// watch is what this process saw of one limit and has not told yet. It is pure: it takes
// time as an argument, and its callers go to Redis.
type watch struct {
	every time.Duration // between two reports of what was used

	mu      sync.Mutex
	away    bool      // a trip is under way
	used    int64     // permits of calls that were answered
	refused time.Time // when the last of those was sent that were refused; zero: none
	next    time.Time // when what was used is told
	not     time.Time // no trip begins before
	stale   time.Time // refusals of calls that were sent up to then tell nothing new
	redis   int64     // Redis's time in the last reply, in microseconds; 0: there was none
	at      time.Time // when that came
}

func newWatch(now time.Time, every time.Duration) *watch {
	return &watch{every: every, next: now.Add(every)}
}

// saw counts an answer, and reports whether the caller is to make a trip.
func (w *watch) saw(now, sent time.Time, permits int64, refused bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used += permits
	if refused && sent.After(w.stale) && sent.After(w.refused) {
		w.refused = sent
	}
	if w.away || now.Before(w.not) || w.refused.IsZero() && now.Before(w.next) {
		return false
	}
	w.away = true
	return true
}

// sight is what a trip tells.
type sight struct {
	used    int64
	refused time.Time // zero: none
	sent    int64     // the same on Redis's clock, or earlier; 0: not known
}

// take is what there is to tell. Where Redis's time is not known yet, refusals stay for
// another trip: only a reply can tell on which side of a decrease they are.
func (w *watch) take() sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := sight{used: w.used}
	w.used = 0
	if w.redis > 0 && !w.refused.IsZero() {
		s.refused, w.refused = w.refused, time.Time{}
		s.sent = max(1, w.redis+s.refused.Sub(w.at).Microseconds())
	}
	return s
}

// heard takes over what a reply says that came just now.
func (w *watch) heard(now time.Time, v verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.redis, w.at = v.seen, now
	w.next = now.Add(w.every)
	w.stale = now.Add(v.news)
	if !w.refused.After(w.stale) {
		w.refused = time.Time{}
	}
}

// again reports whether there are refusals to tell.
func (w *watch) again() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.refused.IsZero()
}

// ends is the end of a trip. What was used is not told again if the trip failed, as it may
// have been counted: too slow a rise does no harm. A refusal is: it counts once.
func (w *watch) ends(now time.Time, s sight, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = false
	if err == nil {
		return
	}
	w.not = now.Add(retryAfter)
	if s.refused.After(w.refused) {
		w.refused = s.refused
	}
}
