package inbound

import (
	"math"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// A Quota is a limit and what is left of it, for HTTP headers. [Middleware] sets its headers by
// itself; use a Quota for other responses, such as a status page. It is a plain value; the zero
// Quota is not useful.
type Quota struct {
	// Policy names the limit: printable ASCII.
	Policy string

	// Permits is how many permits become available in one Window, so Permits / Window is the rate,
	// also if the bucket fills in a fraction of a second.
	Permits int64

	// Window is the length of the window of a quota or a rolling limit. For other limits it is the
	// time in which an empty bucket fills. It is in whole seconds, rounded up, and at least one.
	Window time.Duration

	// Remaining is how many whole permits may be used at once, at most the burst.
	Remaining int64

	// Reset is the time until all permits are available, if no call uses any. For a rolling limit
	// it is the longest that this may take. For a limit with warm-up it is the time until the next
	// call.
	Reset time.Duration
}

// NewQuota makes the Quota of a limit from its state; see [reserve.Limiter.State]. Permits
// that processes took ahead, on a lease, count as used.
func NewQuota(policy string, limit reserve.Limit, state reserve.State) Quota {
	q := newQuota(policy, limit)
	q.Remaining = whole(state.Stored, limit)
	window := time.Duration(float64(limit.MaxBurst()) / limit.Rate() * float64(time.Second)) // it fits: of at most 31 years
	switch limit.Kind() {
	case reserve.KindPaced:
		q.Reset = max(0, time.Until(state.NextFree)+window)
	case reserve.KindWarmingUp: // what it has stored are calls that cost more time, and not less
		q.Remaining = 1
	case reserve.KindQuota:
		now := time.Now()
		_, end := limit.Window(now)
		window = end.Sub(now)
		fallthrough
	case reserve.KindRolling:
		if q.Remaining < int64(limit.MaxBurst()) {
			q.Reset = window
		}
	}
	if state.Wait > 0 { // also where others wait, or there is a pause
		q.Remaining, q.Reset = 0, max(q.Reset, state.Wait)
	}
	return q
}

// SetHeaders sets the headers. The IETF's fields are added to those of other limits. The legacy
// fields are replaced: they describe the last limit.
func (q Quota) SetHeaders(to http.Header, which Headers) {
	q.setPolicy(to, which)
	setFigures(to, which, []Quota{q}, math.MaxInt64)
}

// wrong bounds the error of floating-point arithmetic. Without it, 0.1 by 30 would not be 3.
const wrong = 1e-6

// newQuota returns the Quota of a limit without remaining permits.
func newQuota(policy string, limit reserve.Limit) Quota {
	window := max(1, math.Ceil(float64(limit.MaxBurst())/limit.Rate()-wrong))
	return Quota{
		Policy:  policy,
		Permits: max(int64(limit.MaxBurst()), int64(limit.Rate()*window+wrong)),
		Window:  time.Duration(window) * time.Second,
	}
}

// whole returns the whole permits among the available permits.
func whole(permits float64, limit reserve.Limit) int64 {
	return min(int64(limit.MaxBurst()), max(0, int64(permits+wrong)))
}

// refusedQuota returns the Quota of a limit for which a call of some cost would have had to wait.
func refusedQuota(policy string, limit reserve.Limit, cost int, wait time.Duration) Quota {
	q := newQuota(policy, limit)
	q.Reset = wait
	switch limit.Kind() {
	case reserve.KindPaced:
		q.Remaining = whole(float64(cost)-wait.Seconds()*limit.Rate(), limit)
		q.Reset += time.Duration(float64(limit.MaxBurst()-cost) / limit.Rate() * float64(time.Second))
	case reserve.KindRolling:
		q.Reset = max(wait, q.Window)
	}
	return q
}
