package outage

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

const (
	punctual = 20 * time.Millisecond // a timer that is later than that was not just late
	longest  = 36525 * 24 * time.Hour
)

// Share paces the calls of one limit in this process while Redis is away. Its bucket begins
// empty. It has no lock.
type Share struct {
	limiter *rate.Limiter
	burst   int
	start   time.Time // turns that are fixed are used until then
	planned time.Time // when the next call may be let through; zero: at any time
}

// NewShare returns one of so many permits per second; turns that were given are used until
// start.
func NewShare(perSecond float64, burst int, start time.Time) *Share {
	limiter := rate.NewLimiter(rate.Limit(perSecond), burst)
	limiter.AllowN(start, burst)
	return &Share{limiter: limiter, burst: burst, start: start}
}

// At is when n permits are there. A call may cost more than the bucket of the
// share holds; then that is filled up for it.
func (s *Share) At(now time.Time, n int64) time.Time {
	now = s.since(now)
	s.limiter.SetBurstAt(now, max(s.burst, int(n)))
	short := float64(n) - s.limiter.TokensAt(now)
	if short <= 0 {
		return now
	}
	return now.Add(s.time(short))
}

// Plan notes when the next call is to be let through.
func (s *Share) Plan(at time.Time) { s.planned = at }

// Take uses n permits. A timer that is late does not make the next call later.
func (s *Share) Take(now time.Time, n int64) {
	if late := now.Sub(s.planned); late > 0 && late <= punctual {
		now = s.planned
	}
	s.planned = time.Time{}
	s.limiter.ReserveN(s.since(now), int(n))
}

// time is how long it takes until permits become available.
func (s *Share) time(permits float64) time.Duration {
	nanos := math.Ceil(permits / float64(s.limiter.Limit()) * float64(time.Second))
	return time.Duration(min(nanos, float64(longest)))
}

// Debt is how many permits of the bucket are in use, and not regained yet.
func (s *Share) Debt(now time.Time) int64 {
	return int64(math.Ceil(max(0, float64(s.burst)-s.limiter.TokensAt(s.since(now)))))
}

func (s *Share) since(now time.Time) time.Time {
	if now.Before(s.start) {
		return s.start
	}
	return now
}
