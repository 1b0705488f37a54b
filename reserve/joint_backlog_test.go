package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	inbubble "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// A rate that all calls need is used from the first second on, whatever else some of them need:
// slots, and a second rate that holds its own calls back for longer.
func TestBacklogAtSeveralLimits(t *testing.T) {
	for _, x := range []struct {
		each, slots int            // calls per process; slots, 0: none
		second      func(int) bool // whether a call needs the second rate, too
		order       string         // of those
	}{
		{400, 24, func(i int) bool { return i%10 == 0 }, "each tenth"},
		{300, 8, func(i int) bool { return i < 30 }, "the first ones"},
		{300, 24, func(i int) bool { return i >= 270 }, "the last ones"},
		{600, 0, func(i int) bool { return i%10 == 0 }, "each tenth"},
		{600, 0, func(i int) bool { return i%2 == 0 }, "each second"},
		{1500, 0, func(i int) bool { return i%10 == 0 }, "each tenth"},
	} {
		t.Run(fmt.Sprintf("%d calls, %d slots, %s", x.each, x.slots, x.order), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const length, rate = 3, 100
				b := inbubble.New(t)
				b.Way = time.Millisecond
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				var each, endpoint [length + 1]int
				began := time.Now()
				var calls sync.WaitGroup
				for range 2 {
					client := b.Client()
					limiter := func(name string, limit reserve.Limit) *reserve.Limiter {
						return b.Limiter(client, reserve.Config{Name: name, Group: "g", Limit: limit})
					}
					limits := []*reserve.Limiter{limiter("account", reserve.PerSecond(rate).Burst(5))}
					if x.slots > 0 {
						limits = append(limits, limiter("at once", reserve.Concurrent(x.slots)))
					}
					plain := joint(t, limits...)
					search := joint(t, append(limits, limiter("endpoint", reserve.PerSecond(20).Burst(3)))...)
					for i := range x.each {
						j, second := plain, x.second(i)
						if second {
							j = search
						}
						calls.Go(func() {
							for {
								r, err := j.Acquire(ctx)
								if err != nil {
									return
								}
								mu.Lock()
								s := min(length, int(time.Since(began)/time.Second))
								each[s]++
								if second {
									endpoint[s]++
								}
								mu.Unlock()
								time.Sleep(50 * time.Millisecond)
								r.Release()
							}
						})
					}
				}
				time.Sleep(length*time.Second - time.Nanosecond)
				cancel()
				calls.Wait()
				t.Logf("calls in each second %v, of those to the endpoint %v; %d scripts", each[:length], endpoint[:length], b.Scripts.Load())
				all := 0
				for s := range length {
					require.GreaterOrEqual(t, each[s], rate*9/10, "second %d", s)
					all += each[s]
				}
				require.GreaterOrEqual(t, all, length*rate*99/100)
			})
		})
	}
}
