package reserve_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/reserve"
)

// A test may see every turn that a call uses.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(10).Burst(5), reserve.PerSecond(10).Burst(5))
		one, j := limits[0], joint(t, limits[0].For("a"), limits[1])
		require.NoError(t, one.Wait(t.Context()))
		var mu sync.Mutex
		var turns []observe.Turn
		observe.Turns(func(turn observe.Turn) {
			mu.Lock()
			defer mu.Unlock()
			turns = append(turns, turn)
		})
		defer observe.Turns(nil)
		time.Sleep(time.Second)
		require.NoError(t, one.WaitN(t.Context(), 2))
		require.True(t, allowed(t, one, 1))
		require.False(t, allowed(t, one, 5))
		require.NoError(t, j.Wait(t.Context(), 3, 4))
		r, err := j.Ask(t.Context(), "id", time.Minute)
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
		b.mini.SetError(loading)
		require.NoError(t, one.Wait(t.Context()))

		require.Len(t, turns, 7)
		for i, want := range []struct {
			limit string
			cost  int64
			slack time.Duration
			id    string
		}{
			{"limit-0", 2, 0, ""}, {"limit-0", 1, 200 * time.Millisecond, ""},
			{"limit-0/a", 3, 0, ""}, {"limit-1", 4, 0, ""},
			{"limit-0/a", 1, 300 * time.Millisecond, "id"}, {"limit-1", 1, 300 * time.Millisecond, "id"}, {"limit-0", 1, 0, ""},
		} {
			turn := turns[i]
			assert.Equal(t, reserve.DefaultPrefix, turn.Prefix)
			assert.Equal(t, want.limit, turn.Limit)
			assert.Equal(t, want.cost, turn.Cost)
			assert.Equal(t, want.id, turn.ID)
			assert.LessOrEqual(t, turn.Late.Abs(), 5*time.Millisecond)
			if i < 6 { // permits from a full bucket would overflow
				assert.InDelta(t, want.slack+20*time.Millisecond, turn.Slack, float64(30*time.Millisecond), "turn %d", i)
			}
			if i == 6 {
				assert.Zero(t, turn.Told, "Redis does not know of it")
				continue
			}
			assert.InDelta(t, 0, turn.Given.Sub(turn.Turn), float64(10*time.Millisecond), "the clocks are the same")
			assert.InDelta(t, 0, turn.Given.Sub(turn.Told), float64(500*time.Millisecond))
		}
	})
}
