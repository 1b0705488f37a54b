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
// makes the same history.
func TestFleetForAnHour(t *testing.T) {
	const rate, workers, processes = 20, 50, 5
	first := fleetHour(t, 1, rate, workers, processes)
	again := fleetHour(t, 1, rate, workers, processes)
	require.Equal(t, first.digest, again.digest, "the same seed makes the same history")

	t.Logf("FLEET %d workers, %d processes, %d/s: %d calls, %d refused, utilization %.4f",
		workers, processes, rate, first.Requests, first.Refused, first.utilization)
	require.Zero(t, first.Refused)
	require.GreaterOrEqual(t, first.utilization, 0.99)
	require.InDelta(t, rate*3600, first.Requests, rate*3600*0.01)
}

type hour struct {
	provider.Summary
	utilization float64
	digest      string
}

func fleetHour(t *testing.T, seed uint64, rate float64, workers, processes int) (h hour) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+25*time.Millisecond)
		defer cancel()
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
					api.Judge(1)
					time.Sleep(time.Duration(random.IntN(3_000_000)) * time.Microsecond)
				}
			})
		}
		fleet.Wait()
		h.Summary = api.Summary()
		h.utilization = h.Utilization(rate, 1)
		sum := sha256.New()
		start := h.First
		for _, c := range api.History() {
			fmt.Fprintln(sum, c.At.Sub(start), c.N, c.Refused)
		}
		h.digest = fmt.Sprintf("%x", sum.Sum(nil))
	})
	return h
}
