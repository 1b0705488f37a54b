package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// The way to Redis takes longer from one moment to the next, so the turn of a slow limit is over when
// its reply arrives. The call asks once more and has its turn then, at each key, whether it waits or
// not, and whether the way back alone has become slow or the way there, too.
func TestCallsOfASlowLimitWhenTheWayTakesLonger(t *testing.T) {
	const usual = 130 // calls before that
	ways := map[string]func(b *bubble, trip time.Duration){
		"both": func(b *bubble, trip time.Duration) { b.way.Store(int64(trip / 2)) },
		"back": func(b *bubble, trip time.Duration) { b.delay(func() time.Duration { return trip - 2*way }) },
	}
	for _, limit := range []reserve.Limit{reserve.Every(3 * time.Second), reserve.Every(time.Hour)} {
		for what, slow := range ways {
			for _, trip := range []time.Duration{60 * time.Millisecond, 150 * time.Millisecond, 900 * time.Millisecond} {
				t.Run(fmt.Sprint(limit, " ", what, " ", trip), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := newBubble(t)
						l := b.limiter(limit)
						for i := range usual {
							require.NoError(t, l.For(fmt.Sprint("usual ", i)).Wait(t.Context()))
						}
						slow(b, trip)
						most := 0.0
						for i := range 10 {
							began := time.Now()
							if call := l.For(fmt.Sprint("slow ", i)); i%2 == 0 {
								require.NoError(t, call.Wait(t.Context()))
							} else {
								require.True(t, allowed(t, call, 1))
							}
							most = max(most, float64(time.Since(began))/float64(trip))
						}
						t.Logf("at most %.2f round trips", most)
						const slop = 5 * time.Millisecond // the engine allows timers 4 ms
						require.LessOrEqual(t, most, 3+float64(slop)/float64(trip))
					})
				})
			}
		}
	}
}

// A fleet uses its limit although Redis is far away: see docs/outages.md.
func TestRedisIsFar(t *testing.T) {
	for trip, least := range map[time.Duration]float64{400 * time.Millisecond: 0.97, 500 * time.Millisecond: 0.85} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			b.way.Store(int64(trip / 2))
			ctx, leave := context.WithTimeout(t.Context(), 30*time.Second)
			defer leave()
			var calls atomic.Int64
			var busy sync.WaitGroup
			for range 2 {
				l := b.limiter(reserve.PerSecond(10))
				for range 6 {
					busy.Go(func() {
						for l.Wait(ctx) == nil {
							calls.Add(1)
						}
					})
				}
			}
			time.Sleep(10 * time.Second)
			before := calls.Load()
			time.Sleep(10 * time.Second)
			used := float64(calls.Load()-before) / 100
			t.Logf("%v: %.3f of the limit", trip, used)
			require.GreaterOrEqual(t, used, least)
			leave()
			busy.Wait()
		})
	}
}
