package reserve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A turn that was granted before its limit changed may be used when it is due, and not later: under a
// slower limit, calls that were both made late would come too close together.
func TestTurnsOfAChangedLimitAreNotUsedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10).Burst(3))
		began := time.Now()
		var turns []*reserve.Reservation
		for range 5 { // three at once, one after 100 ms and one after 200 ms
			r, err := l.Reserve(t.Context())
			require.NoError(t, err)
			turns = append(turns, r)
		}
		for _, r := range turns[:3] {
			require.NoError(t, r.Wait(t.Context()))
		}
		require.NoError(t, l.SetLimit(t.Context(), reserve.Every(300*time.Millisecond), time.Hour))
		made := func(r *reserve.Reservation, at time.Duration) time.Duration {
			time.Sleep(at - time.Since(began))
			require.NoError(t, r.Wait(context.Background()))
			return time.Since(began)
		}
		first := made(turns[3], 295*time.Millisecond)
		second := made(turns[4], max(first, 395*time.Millisecond))
		t.Logf("made after %v and %v", first, second)
		require.GreaterOrEqual(t, second-first, 275*time.Millisecond)
	})
}
