package reserve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// A limit that was made slower counts for as long as its limiter is open, and no longer.
func TestClosedLimitersAreNotInForce(t *testing.T) {
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			client := b.client()
			slow := b.on(client, reserve.Config{Limit: reserve.PerSecond(1)})
			if !alone { // the process lives on
				b.on(client, reserve.Config{Name: "other", Limit: reserve.PerSecond(1)})
			}
			require.NoError(t, slow.Wait(t.Context()))
			time.Sleep(2 * time.Second)
			require.NoError(t, slow.Close())
			time.Sleep(100 * time.Millisecond)
			fast, begun := b.limiter(reserve.PerSecond(10)), time.Now()
			for range 11 {
				require.NoError(t, fast.Wait(t.Context()))
			}
			require.Less(t, time.Since(begun), 2*time.Second)
		})
	}
}

// Calls that wait ask again when a slower limit is in force no more.
func TestCallsHearOfAClosedLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		slow, fast := b.limiter(reserve.PerHour(1).Burst(5)), b.limiter(reserve.PerSecond(20).Burst(5))
		calls := newLog()
		require.NoError(t, slow.Wait(t.Context()))
		require.NoError(t, fast.Wait(t.Context()))
		time.Sleep(3 * time.Second)
		for who := range 10 {
			calls.wait(t, 1, who, fast.Wait)
		}
		time.Sleep(3 * time.Second)
		require.Len(t, calls.between(0, time.Hour), 3)
		require.NoError(t, slow.Close())
		time.Sleep(10 * time.Second)
		require.Len(t, calls.between(0, time.Hour), 10)
	})
}

// A process that needs a name no more is not one that died.
func TestIdleProcessesSignOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		ended := func() int64 { // of the two
			key := lua.BeatKeys(reserve.DefaultPrefix, "", "api")[0]
			require.Equal(t, int64(2), client.ZCard(t.Context(), key).Val())
			return client.ZCount(t.Context(), key, "-inf", "(0").Val()
		}
		fleet := []*reserve.Limiter{b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))}
		for range 2 {
			for _, l := range fleet {
				require.NoError(t, l.Wait(t.Context()))
			}
			time.Sleep(2 * time.Second)
			require.Zero(t, ended())
			time.Sleep(11 * time.Second)
			require.Equal(t, int64(2), ended(), "idle")
		}
		require.NoError(t, fleet[0].Wait(t.Context()))
		time.Sleep(2 * time.Second)
		b.dead.Store(true)
		begun := time.Now()
		require.NoError(t, fleet[0].Close())
		require.Less(t, time.Since(begun), 6*time.Second, "Redis does not answer: one try of the client")
	})
}
