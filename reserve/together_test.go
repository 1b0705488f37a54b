package reserve_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	inbubble "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// Calls of a process that come one by one, while others wait, share what they ask Redis: one
// script call is for as many as one may serve, about a dozen.
func TestCallsAskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inbubble.New(t)
		l := b.Limiter(b.Client(), reserve.Config{Limit: reserve.PerSecond(1000)})
		var calls sync.WaitGroup
		call := func() { require.NoError(t, l.Wait(t.Context())) }
		for range 1000 { // so many wait then
			calls.Go(call)
		}
		time.Sleep(500 * time.Millisecond)
		before := b.Scripts.Load()
		for range 2000 {
			time.Sleep(time.Millisecond)
			calls.Go(call)
		}
		asked := float64(b.Scripts.Load() - before)
		calls.Wait()
		t.Logf("%.3f script calls per turn", asked/2000)
		require.Less(t, asked/2000, 0.3)
	})
}
