package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// After an outage a fleet uses its limit again within two seconds, whatever its processes report about the calls that
// they have made without Redis: the API has let through no more than its bucket held. It refuses no call then.
func TestAfterAnOutage(t *testing.T) {
	for _, policy := range []reserve.Policy{reserve.PolicyLocal, reserve.PolicyOpen} {
		for _, burst := range redistest.Budget([]int{1, 10, 100}, []int{1, 100}) {
			for _, warm := range redistest.Budget([]time.Duration{0, 2 * time.Second}, []time.Duration{0}) {
				for _, alone := range []bool{false, true} { // only one of six processes calls while Redis is away
					t.Run(fmt.Sprint(policy, "/", burst, "/", warm, "/", alone), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { testAfterAnOutage(t, policy, burst, warm, alone) })
					})
				}
			}
		}
	}
}

// Calls without any limit, which the API may have refused, leave no debt behind calls of a process that did not notice
// the outage.
func TestOpenLeavesNoDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		with := func(failures int) *reserve.Limiter {
			return b.with(reserve.Config{Limit: reserve.PerSecond(10).Burst(100), Outage: reserve.Outage{Policy: reserve.PolicyOpen, Failures: failures}})
		}
		floods, rests := with(3), with(100)
		require.NoError(t, floods.Wait(t.Context()))
		require.NoError(t, rests.Wait(t.Context()))
		b.mini.SetError(loading)
		for range 400 {
			require.NoError(t, floods.Wait(t.Context()))
			time.Sleep(10 * time.Millisecond)
		}
		b.mini.SetError("")
		require.NoError(t, rests.WaitN(t.Context(), 60))
		time.Sleep(2 * time.Second) // the other process is back
		from := time.Now()
		require.NoError(t, rests.Wait(t.Context()))
		assert.Less(t, time.Since(from), 500*time.Millisecond)
	})
}

func testAfterAnOutage(t *testing.T, policy reserve.Policy, burst int, warm time.Duration, alone bool) {
	const rate, processes, begins, lasts, after = 10, 6, 8 * time.Second, 12 * time.Second, 12 * time.Second
	b := newBubble(t)
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	api := provider.New(provider.TokenBucket(rate*1.001, burst+1))
	f := newLog()
	var refused []time.Duration
	away := false
	limit := reserve.PerSecond(rate).Burst(burst)
	if warm > 0 {
		limit = limit.WarmUp(warm)
	}
	for p := range processes {
		l := b.with(reserve.Config{Limit: limit, Outage: reserve.Outage{Policy: policy}})
		busy.Go(func() {
			for ctx.Err() == nil {
				f.mu.Lock()
				rests := away && alone && p > 0
				f.mu.Unlock()
				if !rests && l.Wait(ctx) == nil {
					f.mu.Lock()
					if ok, _ := api.Judge(1); ok {
						f.calls = append(f.calls, call{f.now(), 1, p})
					} else {
						refused = append(refused, f.now())
					}
					f.mu.Unlock()
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	time.Sleep(begins)
	f.mu.Lock()
	away = true
	f.mu.Unlock()
	b.mini.SetError(loading)
	time.Sleep(lasts)
	b.mini.SetError("")
	f.mu.Lock()
	away = false
	f.mu.Unlock()
	back := f.now()
	time.Sleep(after)
	cancel()
	busy.Wait()
	assert.GreaterOrEqual(t, len(f.between(back, back+after)), int((after-2*time.Second).Seconds()*rate), "calls after the outage")
	late := 0
	for _, at := range refused {
		if at > back+1500*time.Millisecond || at < begins {
			late++
		}
	}
	assert.Zero(t, late, "refused calls")
	t.Logf("MEASURE %d calls after the outage, %d refused too late", len(f.between(back, back+after)), late)
}
