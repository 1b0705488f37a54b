package engine_test

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Calls that wait at many keys share their trips, although their turns are spread over the second.
func TestKeysShareTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes, keys, waiting = 2, 100, 2
		b := newBubble(t)
		var all sync.WaitGroup
		var turns atomic.Int64
		length := seconds(12)
		end := time.Now().Add(length)
		for range processes {
			p := b.process(time.Millisecond)
			for i := range keys * waiting {
				l := p.paced(strconv.Itoa(i%keys), 1, 1)
				_, phase := math.Modf(float64(i%keys) * math.Phi)
				all.Go(func() {
					time.Sleep(seconds(phase))
					for time.Now().Before(end) {
						_, err := p.Wait(t.Context(), one(l))
						require.NoError(t, err)
						turns.Add(1)
					}
				})
			}
		}
		time.Sleep(length / 2)
		had, asks := turns.Load(), b.asks.Load()
		time.Sleep(length / 2)
		n := turns.Load() - had
		perTurn := float64(b.asks.Load()-asks) / float64(n)
		t.Logf("used %.3f, %.2f script calls per turn", float64(n)/keys/(length/2).Seconds(), perTurn)
		require.Greater(t, float64(n), 0.98*keys*(length/2).Seconds())
		require.Less(t, perTurn, 1.5)
		all.Wait()
	})
}
