package reserve

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// local paces the calls of one line in this process while Redis is away. Its
// bucket begins empty.
type local struct {
	limiter *rate.Limiter
	burst   int
	start   time.Time // turns that are fixed are used until then
	planned time.Time // when the next call may be let through; zero: at any time
}

func newLocal(perSecond float64, burst int, start time.Time) *local {
	limiter := rate.NewLimiter(rate.Limit(perSecond), burst)
	limiter.AllowN(start, burst)
	return &local{limiter: limiter, burst: burst, start: start}
}

// at is when n permits are there. A call may cost more than the bucket of the
// share holds; then that is filled up for it.
func (l *local) at(now time.Time, n int64) time.Time {
	now = l.since(now)
	l.limiter.SetBurstAt(now, max(l.burst, int(n)))
	short := float64(n) - l.limiter.TokensAt(now)
	if short <= 0 {
		return now
	}
	return now.Add(l.time(short))
}

// plan notes when the next call is to be let through.
func (l *local) plan(at time.Time) { l.planned = at }

// take uses n permits. A timer that is late does not make the next call later.
func (l *local) take(now time.Time, n int64) {
	if late := now.Sub(l.planned); late > 0 && late <= oversleep {
		now = l.planned
	}
	l.planned = time.Time{}
	l.limiter.ReserveN(l.since(now), int(n))
}

// time is how long it takes until permits become available.
func (l *local) time(permits float64) time.Duration {
	nanos := math.Ceil(permits / float64(l.limiter.Limit()) * float64(time.Second))
	return time.Duration(min(nanos, float64(century)))
}

// debt is how many permits of the bucket are in use, and not regained yet.
func (l *local) debt(now time.Time) int64 {
	return int64(math.Ceil(max(0, float64(l.burst)-l.limiter.TokensAt(l.since(now)))))
}

func (l *local) since(now time.Time) time.Time {
	if now.Before(l.start) {
		return l.start
	}
	return now
}
