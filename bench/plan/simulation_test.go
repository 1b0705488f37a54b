package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simulate plays one process and name: calls for random limits at random moments, one
// trip in the air, with up to 100 limits. It returns trips per second and limits per trip.
func simulate(r *rand.Rand, asks float64, limits int, rtt float64, c calibration) (trips, perTrip float64) {
	const wanted = 5000
	now, next := 0., r.ExpFloat64()/asks
	var pending []int // limits, in order of their first call
	waits := make(map[int]bool)
	arrive := func() {
		if limit := r.IntN(limits); !waits[limit] {
			waits[limit] = true
			pending = append(pending, limit)
		}
		next += r.ExpFloat64() / asks
	}
	visits := 0
	for range wanted {
		if len(pending) == 0 {
			now = next
			arrive()
		}
		batch := min(mostLimits, len(pending))
		for _, limit := range pending[:batch] {
			delete(waits, limit)
		}
		pending = pending[batch:]
		visits += batch
		now += rtt + c.Quick.CPU.of(float64(batch))/1e6
		for next <= now {
			arrive()
		}
	}
	return wanted / now, float64(visits) / wanted
}

// The closed formula says what happens, not only what is plausible.
func TestGroupCommitIsAsSimulated(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	c := even
	c.Quick.CPU.Each = 2
	for _, limits := range []int{1, 5, 50, 1000} {
		for _, asks := range []float64{10, 300, 2000, 10_000, 60_000} {
			for _, rtt := range []time.Duration{100 * time.Microsecond, 700 * time.Microsecond} {
				trips, perTrip := quickTrips(asks, float64(limits), rtt.Seconds(), c)
				gotTrips, gotPerTrip := simulate(r, asks, limits, rtt.Seconds(), c)
				const near = 0.12 // most where limits are some more than a trip's calls
				require.InEpsilon(t, gotTrips, trips, near, "trips: %d limits, %g asks/s, %v", limits, asks, rtt)
				require.InEpsilon(t, gotPerTrip, perTrip, near, "limits per trip: %d limits, %g asks/s, %v", limits, asks, rtt)
			}
		}
	}
}
