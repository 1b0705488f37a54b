package adaptive

import (
	"sync"
	"time"
)

const (
	shares     = 4           // reports per process and round
	retryAfter = time.Second // the delay after a trip that failed
)

// watch holds the results of one limit that this process has not reported yet. It does no I/O and
// takes the time as an argument.
type watch struct {
	every time.Duration // between two reports of used permits

	mu      sync.Mutex
	away    bool      // a trip is under way
	used    int64     // permits of calls that got a response
	refused time.Time // when the latest refused call was sent; zero: none
	next    time.Time // when to report used permits
	not     time.Time // no trip begins before this moment
	stale   time.Time // refusals of calls that were sent up to this moment belong to a known incident
	redis   int64     // Redis's time in the last reply, in microseconds; 0: no reply yet
	at      time.Time // when that reply came
}

func newWatch(now time.Time, every time.Duration) *watch {
	return &watch{every: every, next: now.Add(every)}
}

// saw counts a response, and reports whether the caller is to start a trip.
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

// sight is what a trip reports.
type sight struct {
	used    int64
	refused time.Time // zero: none
	sent    int64     // the same moment on Redis's clock, or earlier; 0: unknown
}

// take takes what there is to report. Before the first reply, Redis's time is unknown, so refusals
// stay for another trip: only a reply shows on which side of a decrease they are.
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

// heard takes over a reply that has just come.
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

// again reports whether there is a refusal left to report.
func (w *watch) again() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.refused.IsZero()
}

// ends ends a trip. After a failure, refusals are reported again, which is safe because an incident
// counts once. Used permits are not, because Redis may have counted them: a slower rise does no
// harm.
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
