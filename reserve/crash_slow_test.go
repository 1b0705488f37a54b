package reserve_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A process is killed whose calls wait before all others. However far apart the turns of the limit are, the next
// call gets a turn of theirs.
func TestKilledBeforeOthersAtASlowLimit(t *testing.T) {
	for _, a := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 10 * time.Second, time.Minute} {
		for n := range 6 {
			before, late := []int{1, 2, 5}[n%3], n >= 3
			t.Run(fmt.Sprint(a, "/", before, "/", late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					limit := reserve.Every(a)
					dead, alive := b.mortal(limit), b.limiter(limit)
					require.NoError(t, dead.Wait(t.Context()))
					from := time.Now()
					for range before {
						go func() { _ = dead.Wait(t.Context()) }()
					}
					time.Sleep(50 * time.Millisecond)
					var got atomic.Int64
					for range 2 {
						go func() {
							if alive.Wait(t.Context()) == nil {
								got.CompareAndSwap(0, int64(time.Since(from)))
							}
						}()
					}
					if time.Sleep(50 * time.Millisecond); late {
						time.Sleep(time.Until(from.Add(a - 1100*time.Millisecond)))
					}
					dead.killed.Store(true)
					time.Sleep(time.Duration(before+4)*a + time.Minute)
					turn := time.Duration(got.Load())
					t.Logf("MEASURE first turn after %v", turn)
					assert.LessOrEqual(t, turn, a+5*time.Second)
				})
			})
		}
	}
}
