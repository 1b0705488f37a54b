package reserve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// The state tells that a limit was set, and for how long.
func TestStateTellsWhatWasSet(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		one, two := b.limiter(k.limit), b.limiter(k.limit)
		require.NoError(t, one.SetLimit(t.Context(), k.other, 0))
		s := state(t, two)
		assert.True(t, s.Set)
		assert.Zero(t, s.SetFor)
		require.NoError(t, one.SetLimit(t.Context(), k.other, 10*time.Second))
		s = state(t, two)
		assert.True(t, s.Set)
		assert.InDelta(t, 10*time.Second, s.SetFor, float64(20*time.Millisecond))
		require.NoError(t, one.ResetLimit(t.Context()))
		assert.False(t, state(t, two).Set)
	})
}

// The state tells how many permits are stored, when the last one that was spent becomes
// available, and how many processes live.
func TestStateOfAPacedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.PerSecond(1).Burst(10)), b.limiter(reserve.PerSecond(1).Burst(10))
		require.NoError(t, one.WaitN(t.Context(), 4))
		require.NoError(t, two.WaitN(t.Context(), 3))
		time.Sleep(time.Second)
		s := state(t, one)
		assert.InDelta(t, 4, s.Stored, 0.1)
		assert.InDelta(t, -4*time.Second, time.Until(s.NextFree), float64(100*time.Millisecond))
		assert.EqualValues(t, 2, s.Processes)
	})
}
