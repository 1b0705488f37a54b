package reserve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// With a lease most calls need no round trip while permits are stored, and the limit stays
// exact.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limit := reserve.PerSecond(100).Burst(400)
		leases := b.with(reserve.Config{Limit: limit, Prefetch: 2 * time.Second})
		plain := b.limiter(limit)
		api := provider.New(provider.TokenBucket(100.01, 403))
		quick, calls := 0, 0
		for start := time.Now(); time.Since(start) < 30*time.Second; {
			begun := time.Now()
			require.NoError(t, leases.Wait(t.Context()))
			if time.Since(begun) == 0 {
				quick++
			}
			calls++
			api.Judge(1)
			time.Sleep(20 * time.Millisecond)
			if calls%4 == 0 {
				require.NoError(t, plain.Wait(t.Context()))
				api.Judge(1)
			}
		}
		assert.Zero(t, api.Summary().Refused)
		s := leases.PrefetchStats()
		t.Logf("%d of %d calls without a round trip; %+v", quick, calls, s)
		assert.GreaterOrEqual(t, quick, calls*8/10)
		assert.EqualValues(t, quick, s.Used)
		assert.GreaterOrEqual(t, s.Taken, s.Used+s.Returned+s.Expired)
		require.NoError(t, leases.Close())
		s = leases.PrefetchStats()
		assert.Equal(t, s.Taken, s.Used+s.Returned+s.Expired, "nothing is held any more")
		assert.Zero(t, plain.PrefetchStats())
	})
}
