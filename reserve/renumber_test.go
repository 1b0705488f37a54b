package reserve_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
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

// A process that hears of lost data later than others has turns that were fixed before,
// which the one that began the line anew may not know of. Only as many calls as there
// are processes may come on top of the limit.
func TestLostDataOverlapsLittle(t *testing.T) {
	inParallel(t)
	const rate, processes, callers, losses = 100, 4, 50, 10
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		ctx, stop := context.WithCancel(t.Context())
		judge := provider.New(provider.TokenBucket(rate, 1+5)) // 50 ms for the jitter of real cores
		var all sync.WaitGroup
		for range processes {
			l := b.limiter(reserve.PerSecond(rate))
			for range callers {
				all.Go(func() {
					for l.Wait(ctx) == nil {
						judge.Judge(1)
					}
				})
			}
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		var worst int
		for range losses {
			before := judge.Summary()
			b.redis.FlushAll()
			time.Sleep(4*time.Second + rand.N(time.Second))
			after := judge.Summary()
			worst = max(worst, after.Refused-before.Refused)
		}
		calls, took := judge.Summary().Requests, time.Since(began)
		stop()
		all.Wait()
		t.Logf("after lost data at most %d calls too early; %.1f/s", worst, float64(calls)/(took.Seconds()+5))
		require.LessOrEqual(t, worst, processes)
	})
}
