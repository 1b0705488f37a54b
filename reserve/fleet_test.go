package reserve_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// An hour of a fleet of 50 workers in 5 processes, which always have work: the
// provider refuses nothing, nothing of the limit is wasted, and the same seed
// makes the same history. Under the race detector the hour has three minutes.
func TestFleetForAnHour(t *testing.T) {
	inParallel(t)
	const rate, workers, processes = 20, 50, 5
	length := 10 * time.Minute
	if long {
		length = time.Hour
	}
	if raceDetector || testing.Short() {
		length = 3 * time.Minute
	}
	start := time.Now()
	h := runFleet(t, 1, length, rate, workers, processes)
	t.Logf("FLEET %d workers, %d processes, %d/s for %v: %d calls, %d refused, utilization %.4f, in %v of real time",
		workers, processes, rate, length, h.Requests, h.Refused, h.utilization, time.Since(start).Round(time.Millisecond))
	require.Zero(t, h.Refused)
	require.GreaterOrEqual(t, h.utilization, 0.99)
	require.InEpsilon(t, rate*length.Seconds(), h.Requests, 0.01)

	one := runFleet(t, 2, time.Minute, rate, workers, processes)
	two := runFleet(t, 2, time.Minute, rate, workers, processes)
	other := runFleet(t, 3, time.Minute, rate, workers, processes)
	require.Equal(t, one.digest, two.digest, "the same seed makes the same history")
	require.NotEqual(t, one.digest, other.digest, "another seed makes another one")
}

type fleetRun struct {
	provider.Summary
	utilization float64
	digest      string
}

func runFleet(t *testing.T, seed uint64, length time.Duration, rate float64, workers, processes int) (h fleetRun) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, 1))
		ctx, cancel := context.WithTimeout(t.Context(), length+25*time.Millisecond) // between two turns
		defer cancel()
		var mu sync.Mutex
		history, start := sha256.New(), time.Now()
		var fleet sync.WaitGroup
		limiters := make([]*reserve.Limiter, processes)
		for i := range limiters {
			limiters[i] = b.limiter(reserve.PerSecond(rate))
		}
		for i := range workers {
			l := limiters[i%processes]
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			fleet.Go(func() {
				// Workers begin apart, so that the order of their first calls is
				// their own and not the scheduler's.
				time.Sleep(time.Duration(i) * time.Millisecond)
				for l.Wait(ctx) == nil {
					mu.Lock()
					fmt.Fprintln(history, time.Since(start), "worker", i)
					mu.Unlock()
					api.Judge(1)
					time.Sleep(time.Duration(random.IntN(4_000_000)) * time.Microsecond)
				}
			})
		}
		fleet.Wait()
		h.Summary = api.Summary()
		h.utilization = h.Utilization(rate, 1)
		h.digest = fmt.Sprintf("%x", history.Sum(nil))
	})
	return h
}
