package reserve_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// Who waits when Redis loses its data stands in the line again as soon as its process
// hears of it, and not when its turn would have been near: by then the others have
// been round once more.
func TestLostDataHoldsNobodyUp(t *testing.T) {
	inParallel(t)
	const rate, processes, callers = 100, 4, 50 // so each call waits for 2 s
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			ctx, stop := context.WithCancel(t.Context())
			var mu sync.Mutex
			var longest time.Duration
			var all sync.WaitGroup
			for range processes {
				l := b.limiter(reserve.PerSecond(rate).Burst(10))
				for range callers {
					all.Go(func() {
						for began := time.Now(); l.Wait(ctx) == nil; began = time.Now() {
							mu.Lock()
							longest = max(longest, time.Since(began))
							mu.Unlock()
						}
					})
				}
			}
			time.Sleep(5 * time.Second)
			mu.Lock()
			before := longest
			mu.Unlock()
			b.redis.FlushAll()
			time.Sleep(10 * time.Second)
			stop()
			all.Wait()
			t.Logf("the longest wait: %v before, %v after", before, longest)
			require.Less(t, before, 2200*time.Millisecond)
			require.Less(t, longest, 4*time.Second, "turns that were fixed are used")
		})
	}
}
