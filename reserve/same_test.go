package reserve_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// Two Limiters of one name in one process are the same limit: they share no turn, and if they
// were made with other rates, the slower one is in force, in peace.
func TestTwoLimitersOfOneNameShareNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		var mu sync.Mutex
		var calls []time.Time
		var all sync.WaitGroup
		for range 2 {
			host := b.on(client, reserve.Config{Name: "host", Group: "g", Limit: reserve.PerSecond(10)})
			j := joint(t, host.For("a"), b.on(client, reserve.Config{Name: "crawl", Group: "g", Limit: reserve.PerSecond(1000)}))
			for range 6 {
				all.Go(func() {
					if err := j.Wait(t.Context()); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, time.Now())
				})
			}
		}
		all.Wait()
		slices.SortFunc(calls, time.Time.Compare)
		for i := 1; i < len(calls); i++ {
			require.GreaterOrEqual(t, calls[i].Sub(calls[i-1]), 99*time.Millisecond, "call %d", i)
		}

		slow := b.on(client, reserve.Config{Name: "crawl", Group: "g", Limit: reserve.PerSecond(1)})
		require.NoError(t, slow.Wait(t.Context()))
		time.Sleep(5 * time.Second)
		before := b.asks.Load()
		time.Sleep(10 * time.Second)
		require.Less(t, b.asks.Load()-before, int64(60), "heartbeats do not call for each other")
	})
}
