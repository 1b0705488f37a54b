package transport

import (
	"math"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport/headers"
)

// told is a limit that a provider states.
type told struct {
	rate  float64 // permits per second
	burst int     // permits
	exact bool
}

// toldLimit returns the strictest of the windows, for a limiter of this burst. It is not ok if no
// window says how many calls are allowed in which time.
func toldLimit(windows []headers.Window, burst int) (strictest told, ok bool) {
	strictest = told{rate: math.Inf(1), burst: burst}
	for _, w := range windows {
		if w.Rate() <= 0 {
			continue
		}
		permits := w.Limit
		most := int(max(1, min(permits, float64(burst))))
		if !w.Refills {
			// A full bucket's burst may fall into the same window as all permits of
			// the rate.
			permits = max(permits-float64(most-1), permits/2)
		}
		strictest.rate = min(strictest.rate, permits/w.Period.Seconds())
		strictest.burst = min(strictest.burst, most)
		ok = true
	}
	return strictest, ok
}

const (
	bucketFills = 20.0 // seconds: Shopify's bucket holds the points of so long
	leastPart   = 0.9
)

// bucketBurst returns the burst for a stated bucket: a part of it, and at most the own burst. The own burst has the same
// part of the own bucket. The rest is for requests that arrive early.
func bucketBurst(own reserve.Limit, stated []headers.Window) int {
	burst := own.MaxBurst()
	part := min(1, max(leastPart, float64(burst)/(bucketFills*own.Rate())))
	for _, w := range stated {
		burst = min(burst, max(1, int(part*w.Limit)))
	}
	return burst
}
