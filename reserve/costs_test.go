package reserve_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// A call allocates no more than its bound, with all that its process and go-redis allocate
// meanwhile. With the race detector, pools forget some of what they keep.
func TestCosts(t *testing.T) {
	for name, c := range map[string]struct {
		callers, keys         int
		allocs, bytes         float64 // the most
		allocsRace, bytesRace float64
	}{
		"idle":                         {1, 0, 19, 700, 22, 1100},
		"10,000 keys among 64 callers": {64, 10_000, 12, 1200, 13, 1600},
		"one limit among 64 callers":   {64, 0, 1, 100, 2, 400},
	} {
		if raceDetector {
			c.allocs, c.bytes = c.allocsRace, c.bytesRace
		}
		t.Run(name, func(t *testing.T) {
			limiter, err := reserve.New(redistest.New(t).Client(t), reserve.Config{
				Name: "costs", Prefix: redistest.Prefix(t), Limit: reserve.PerSecond(1e6).Burst(1e9),
			})
			require.NoError(t, err)
			defer func() { _ = limiter.Close() }()
			keys := make([]string, c.keys)
			for i := range keys {
				keys[i] = strconv.Itoa(i)
			}
			calls := func(n int) {
				var all sync.WaitGroup
				for caller := range c.callers {
					all.Go(func() {
						of := limiter
						for i := caller; i < n; i += c.callers {
							if c.keys > 0 {
								of = limiter.For(keys[i%c.keys])
							}
							if err := of.Wait(context.Background()); err != nil {
								panic(err)
							}
						}
					})
				}
				all.Wait()
			}
			calls(1000 + c.keys) // the state of all limits is known then
			const n = 5_000
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			calls(n)
			runtime.ReadMemStats(&after)
			allocs, bytes := float64(after.Mallocs-before.Mallocs)/n, float64(after.TotalAlloc-before.TotalAlloc)/n
			t.Logf("%.1f allocations, %.0f bytes", allocs, bytes)
			require.Less(t, allocs, c.allocs)
			require.Less(t, bytes, c.bytes)
		})
	}
}
