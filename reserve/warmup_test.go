package reserve_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// turns are the moments, since now, of as many calls, each made when the one before it is let
// through.
func turns(t *testing.T, l *reserve.Limiter, calls int) []time.Duration {
	start, at := time.Now(), make([]time.Duration, calls)
	for i := range at {
		require.NoError(t, l.Wait(t.Context()))
		at[i] = time.Since(start)
	}
	return at
}

// within is how many of them come in the first second.
func within(turns []time.Duration) (n int) {
	for _, at := range turns {
		if at < time.Second {
			n++
		}
	}
	return n
}

// After a silence a limit that warms up is cold, whether its keys are there still or have
// expired, and whatever the process remembers.
func TestSilenceCoolsDown(t *testing.T) {
	const calls = 210
	for _, silence := range []time.Duration{2 * time.Minute, 3 * time.Minute} {
		t.Run(silence.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				limit := reserve.PerSecond(200).WarmUp(30 * time.Second)
				cold := turns(t, b.limiter(limit).For("fresh"), calls)
				l := b.limiter(limit)
				for warm := time.Now(); time.Since(warm) < 32*time.Second; {
					require.NoError(t, l.Wait(t.Context()))
				}
				require.Greater(t, within(turns(t, l, calls)), 195, "it is warm")
				time.Sleep(silence)
				after := turns(t, l, calls)
				t.Logf("calls in the first second: %d, of a fresh limit %d", within(after), within(cold))
				for i := range after {
					require.InDelta(t, cold[i], after[i], float64(20*time.Microsecond), "call %d", i)
				}
			})
		})
	}
}

// Where data is lost while calls are made, a process that knows how warm the limit is goes on
// from there: neither faster nor cold again.
func TestWarmUpGoesOnAfterALoss(t *testing.T) {
	for _, after := range []time.Duration{0, 10 * time.Second, time.Minute} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				limit := reserve.PerSecond(200).WarmUp(30 * time.Second)
				var curves [2][]time.Duration
				for i := range curves {
					l := b.limiter(limit).For(fmt.Sprint(i))
					for warm := time.Now(); time.Since(warm) < 10*time.Second; {
						require.NoError(t, l.Wait(t.Context()))
					}
					time.Sleep(after)
					if i == 1 {
						b.redis.FlushAll()
					}
					curves[i] = turns(t, l, 300)
				}
				for i := range curves[0] {
					require.InDelta(t, curves[0][i], curves[1][i], float64(20*time.Microsecond), "call %d", i)
				}
			})
		})
	}
}
