package reserve_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A limit that is raised a little each second, as one that is looked for, is used while it is:
// turns that were given stay.
func TestLimitThatRisesIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 20
		b := newBubble(t)
		var fleet []*reserve.Limiter
		for range 4 {
			fleet = append(fleet, b.limiter(reserve.PerSecond(40)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int64
		var busy sync.WaitGroup
		for i := range 16 {
			busy.Go(func() {
				for fleet[i%4].Wait(ctx) == nil {
					calls.Add(1)
					time.Sleep(40 * time.Millisecond)
				}
			})
		}
		for i := range length {
			time.Sleep(time.Second)
			require.NoError(t, fleet[i%4].SetLimit(t.Context(), reserve.PerSecond(40+float64(i)/10), time.Hour))
		}
		cancel()
		busy.Wait()
		require.GreaterOrEqual(t, calls.Load(), int64(0.98*40*length))
	})
}
