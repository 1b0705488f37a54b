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

// The cost of a call may be reported as often as it grows. Permits come back once, and what it used beyond what the
// limit counts is charged also then.
func TestSettleSeveralTimes(t *testing.T) {
	kinds := map[string]reserve.Limit{ // A rolling limit gives back more than once.
		"paced":   reserve.PerSecond(10).Burst(100),
		"quota":   reserve.Quota(100, reserve.CalendarDay),
		"rolling": reserve.Rolling(100, 24*time.Hour),
	}
	for name, limit := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				l := b.with(reserve.Config{Limit: limit, Settles: true})
				time.Sleep(time.Minute) // away from the edge of the hour
				require.NoError(t, l.Wait(t.Context()))
				time.Sleep(time.Minute)
				stored := func() int { return int(state(t, l).Stored) }
				full := stored()
				r := held(t, l, 50)
				require.NoError(t, r.Wait(t.Context()))
				require.Equal(t, []int{50}, r.Charged())
				again, less := 30, 40 // a call that has given back gets back nothing of what is added later
				if name == "rolling" {
					again, less = 20, 35
				}
				for _, report := range []struct{ used, charged int }{{60, 60}, {70, 70}, {-1, 70}, {70, 70}, {30, 30}, {20, again}, {40, 40}, {35, less}, {50, 50}} {
					require.NoError(t, r.Settle(t.Context(), report.used))
					assert.Equal(t, []int{report.charged}, r.Charged(), report)
					assert.Equal(t, full-report.charged, stored(), report)
				}
			})
		})
	}
}

// Permits come back of an estimate, and again of the real cost.
func TestEstimateBeforeSettle(t *testing.T) {
	for name, limit := range stored {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newBubble(t).with(reserve.Config{Limit: limit, Settles: true})
				r := held(t, l, 8)
				require.NoError(t, r.Wait(t.Context()))
				for i, now := range []int{5, 5, 6, 3, 1} {
					report := r.Estimate
					if i == 4 {
						report = r.Settle
					}
					require.NoError(t, report(t.Context(), now))
					assert.Equal(t, []int{now}, r.Charged())
					assert.InDelta(t, 10-now, state(t, l).Stored, 0.1)
				}
			})
		})
	}
}

// Where nothing can come back of an estimate yet, it can of the real cost.
func TestEstimateTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limit := reserve.PerSecond(1).Burst(10)
		l, others := b.with(reserve.Config{Limit: limit, Settles: true}), b.with(reserve.Config{Limit: limit})
		require.NoError(t, others.WaitN(t.Context(), 3))
		r := held(t, l, 5)
		require.NoError(t, r.Wait(t.Context()))
		require.NoError(t, r.Estimate(t.Context(), 4))
		require.Equal(t, []int{5}, r.Charged()) // turns of before may still be used
		for range 12 {
			time.Sleep(time.Second)
			require.NoError(t, others.Wait(t.Context()))
		}
		require.NoError(t, r.Settle(t.Context(), 1))
		require.Equal(t, []int{1}, r.Charged())
	})
}

// Tenants have equal parts of what is used, also if one of them estimates a third of that, or three times as much.
func TestSettledShares(t *testing.T) {
	for _, estimates := range [][2]int{{10, 30}, {90, 30}, {90, 10}} {
		t.Run(fmt.Sprint(estimates), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newBubble(t).with(reserve.Config{Limit: reserve.PerSecond(600).Burst(1200), Settles: true})
				const used, waiting = 30, 12
				var calls [2]atomic.Int64
				end := time.Now().Add(25 * time.Second)
				for tenant, estimate := range estimates {
					flow := l.Flow(fmt.Sprint("tenant", tenant))
					for range waiting {
						go func() {
							for time.Now().Before(end) {
								r, err := flow.ReserveN(t.Context(), estimate)
								if err != nil || r.Wait(t.Context()) != nil {
									return
								}
								if time.Now().After(end.Add(-20 * time.Second)) {
									calls[tenant].Add(1)
								}
								time.Sleep(100 * time.Millisecond)
								if r.Settle(t.Context(), used) != nil {
									return
								}
							}
						}()
					}
				}
				time.Sleep(time.Until(end) + 10*time.Second)
				first, total := calls[0].Load(), calls[0].Load()+calls[1].Load()
				t.Logf("%d of %d calls", first, total)
				assert.InDelta(t, 0.5, float64(first)/float64(total), 0.05)
				assert.Greater(t, float64(total*used)/(600*20), 0.95)
			})
		})
	}
}
