package reserve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A key outlives every number that was given out: with ten calls booked at one
// per minute, the eleventh waits its ten minutes, also when it comes late.
func TestKeysOutliveTheLine(t *testing.T) {
	for _, later := range []time.Duration{0, 9 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			l := b.limiter(reserve.Every(time.Minute))
			for range 10 {
				_, err := l.Reserve(t.Context())
				require.NoError(t, err)
			}
			time.Sleep(later)
			// Another process, which remembers nothing.
			r, err := b.limiter(reserve.Every(time.Minute)).Reserve(t.Context())
			require.NoError(t, err)
			require.InDelta(t, 10*time.Minute-later, r.Delay(), float64(time.Millisecond))
			t.Logf("after %v the eleventh waits %v", later, r.Delay())
		})
	}
}

// Whether the key expired or the bucket is full makes no difference to anybody.
func TestExpiredKeyIsAFullBucket(t *testing.T) {
	after := func(idle time.Duration) (delays []time.Duration, expired bool) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			limit := reserve.PerSecond(1).Burst(3)
			for range 5 {
				_, err := b.limiter(limit).Reserve(t.Context())
				require.NoError(t, err)
			}
			time.Sleep(idle)
			expired = len(b.redis.Keys()) == 0
			l := b.limiter(limit)
			for range 6 {
				r, err := l.Reserve(t.Context())
				require.NoError(t, err)
				delays = append(delays, r.Delay().Round(time.Millisecond))
			}
		})
		return delays, expired
	}
	full, expired := after(5*time.Second + 500*time.Millisecond)
	require.False(t, expired)
	gone, expired := after(5 * time.Minute) // processes count for one after their last call
	require.True(t, expired)
	require.Equal(t, full, gone)
	require.Equal(t, []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 3 * time.Second}, gone)
}

// After Redis lost its data, the line goes on behind the last turn that a process
// knows to be fixed; calls that wait get other numbers when they claim theirs.
func TestLostStateIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1).Burst(5))
		var waiting []*reserve.Reservation
		for range 10 {
			r, err := l.Reserve(t.Context())
			require.NoError(t, err)
			if !r.Final() {
				waiting = append(waiting, r)
			}
		}
		require.Len(t, waiting, 4, "five were stored, and the sixth is near")
		time.Sleep(500 * time.Millisecond)
		b.redis.FlushAll()
		r, err := l.Reserve(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 1500*time.Millisecond, r.Delay(), float64(time.Millisecond))
		for i, r := range waiting {
			again, err := l.Claim(t.Context(), r.ID(), 1)
			require.NoError(t, err)
			require.InDelta(t, time.Duration(i)*time.Second+2500*time.Millisecond, again.Delay(), float64(time.Millisecond))
		}
	})
}
