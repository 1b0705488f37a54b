package reserve_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A replica that lags becomes the master: it has places of calls that had their turns since, and none
// of those that came. The fleet is back at the full rate soon, and stays there, however many wait, and
// however late single replies were before.
func TestBackAfterAFailover(t *testing.T) {
	const rate, processes, outage = 100, 4, 2 * time.Second
	for _, test := range []struct {
		lag     time.Duration
		callers int // of each process
		burst   int
		slow    time.Duration // one reply in a hundred
		policy  reserve.Policy
		flows   bool
	}{
		{lag: 3 * time.Second, callers: 40, burst: 1, slow: time.Second, policy: reserve.PolicyLocal},
		{lag: 3 * time.Second, callers: 200, burst: 10, policy: reserve.PolicyWait},
		{lag: 500 * time.Millisecond, callers: 50, burst: 1, policy: reserve.PolicyLocal, flows: true},
		{lag: 0, callers: 50, burst: 1, policy: reserve.PolicyLocal},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				server := newFaultyRedis(b.mini)
				replies := 0
				var mu sync.Mutex
				b.delay(func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					if replies++; replies%100 == 0 {
						return test.slow
					}
					return 0
				})
				calls := newLog()
				ctx, stop := context.WithCancel(t.Context())
				for p := range processes {
					l := b.with(reserve.Config{Limit: reserve.PerSecond(rate).Burst(test.burst), Outage: reserve.Outage{Policy: test.policy}})
					if test.flows {
						l = l.Flow(fmt.Sprint(p % 2))
					}
					for range test.callers {
						calls.busy.Go(func() {
							for l.Wait(ctx) == nil {
								calls.mu.Lock()
								calls.calls = append(calls.calls, call{after: calls.now()})
								calls.mu.Unlock()
							}
						})
					}
				}
				time.Sleep(4 * time.Second)
				server.save()
				time.Sleep(test.lag)
				b.cut.Store(true)
				time.Sleep(outage)
				server.rollBack()
				server.flushScripts()
				b.cut.Store(false)
				b.delay(func() time.Duration { return 0 })
				back, asked := calls.now(), b.asks.Load()
				time.Sleep(5 * time.Second)
				commands := float64(b.asks.Load()-asked) / 5
				stop()
				made := calls.all()
				full := slices.IndexFunc(made, func(c call) bool {
					return c.after >= back && len(calls.between(c.after, c.after+time.Second)) >= rate*97/100
				})
				require.GreaterOrEqual(t, full, 0)
				used := float64(len(calls.between(back+2*time.Second, back+5*time.Second))) / 3 / rate
				t.Logf("full rate after %v, then %.3f of it, %.0f commands per second", made[full].after-back, used, commands)
				assert.LessOrEqual(t, made[full].after-back, 2*time.Second)
				assert.GreaterOrEqual(t, used, 0.97)
			})
		})
	}
}
