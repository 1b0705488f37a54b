package serve

import (
	"math"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// A Quota is a limit and what is left of it, as HTTP headers tell it. [Middleware]
// sets them by itself; a Quota is for answers that do not come from it, such as
// those of a status page. It is a plain value; the zero Quota is not useful.
type Quota struct {
	// Policy names the limit: printable ASCII.
	Policy string

	// Window is whole seconds: those in which an empty bucket fills, rounded up, and
	// at least 1. Permits is how many permits become available in it.
	//
	// So Permits by Window is the rate, also of a limit whose bucket fills in a small
	// part of a second, for which the burst by a second would be far too little.
	Permits int64
	Window  time.Duration

	// Remaining is the whole permits that are stored, at most the burst.
	Remaining int64

	// Reset is the time until all permits are stored, if nobody uses any.
	Reset time.Duration
}

// NewQuota tells of a limit in some state of it; see reserve.Limiter.State. Permits
// that other processes took ahead, on a lease, count as used.
func NewQuota(policy string, limit reserve.Limit, state reserve.State) Quota {
	return newQuota(policy, limit, state.Stored, time.Until(state.NextFree)+fill(limit))
}

// SetHeaders sets the headers, besides those of other limits that are there already.
// Lines of the IETF's fields are added; the legacy ones are those of the last limit.
func (q Quota) SetHeaders(to http.Header, which Headers) {
	q.setPolicy(to, which)
	q.setFigures(to, which, time.Now())
}

func newQuota(policy string, limit reserve.Limit, stored float64, reset time.Duration) Quota {
	// What the arithmetic of floating point is wrong by at the most. Without it, 0.1
	// by 30 would not be 3.
	const wrong = 1e-6
	window := max(1, math.Ceil(float64(limit.MaxBurst())/limit.Rate()-wrong))
	return Quota{
		Policy:    policy,
		Permits:   max(int64(limit.MaxBurst()), int64(limit.Rate()*window+wrong)),
		Window:    time.Duration(window) * time.Second,
		Remaining: min(int64(limit.MaxBurst()), max(0, int64(stored+wrong))),
		Reset:     max(0, reset),
	}
}

// refusedQuota tells of a limit that a call of some cost would have had to wait for.
// That says all: so many permits less than the cost are stored.
func refusedQuota(policy string, limit reserve.Limit, cost int, wait time.Duration) Quota {
	stored := float64(cost) - wait.Seconds()*limit.Rate()
	// The bucket is full later than the request would pass. But that Retry-After is
	// earlier than t the draft does not want.
	return newQuota(policy, limit, stored, wait)
}

// fill is the time in which an empty bucket fills. It fits: a limit is refused whose
// bucket takes longer than 100 years.
func fill(limit reserve.Limit) time.Duration {
	return time.Duration(float64(limit.MaxBurst()) / limit.Rate() * float64(time.Second))
}
