package reserve_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// Where replies take now this long, now that, as on a machine that is busy, those that take as
// long as usual bring turns that can still be used: permits that nobody else wants are not
// asked for again and again.
func TestUsualRepliesAreNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, callers, took = 5000, 500, 16, 20 * time.Second
		const usual = 100 * time.Millisecond // half of them take longer
		api := provider.New(provider.TokenBucket(rate, burst+rate/50+1))
		b := newBubble(t)
		b.delay(func() time.Duration { return rand.N(2 * usual) })
		ctx, stop := context.WithTimeout(t.Context(), took)
		defer stop()
		calls := newLog()
		for range 4 {
			l := b.limiter(reserve.PerSecond(rate).Burst(burst))
			for range callers / 4 {
				calls.busy.Go(func() {
					for l.Wait(ctx) == nil {
						api.Judge(1)
					}
				})
			}
		}
		calls.busy.Wait()
		summary := api.Summary()
		require.Zero(t, summary.Refused)
		require.Greater(t, summary.Requests, callers*int(took/usual)/3, "a third of what the replies allow")
	})
}
