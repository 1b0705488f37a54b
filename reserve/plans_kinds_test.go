package reserve_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

func zone(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
}

// What was used stays used when a plan gets another kind, as docs/plans.md says.
func TestPlansOfAnotherKindKeepWhatWasUsed(t *testing.T) {
	day, hour := reserve.Quota(10, reserve.CalendarDay), reserve.Quota(8, reserve.CalendarHour)
	rate, rolling, warm := reserve.PerMinute(1).Burst(6), reserve.Rolling(10, time.Hour), reserve.PerMinute(1).WarmUp(time.Minute)
	for _, c := range []struct {
		limits []reserve.Limit
		used   []int // calls under each of them
		left   []int // calls that each of them allows at most
	}{
		{[]reserve.Limit{rate, day}, []int{4, 6}, []int{6, 6}},
		{[]reserve.Limit{rate, rolling}, []int{4, 6}, []int{6, 6}},
		{[]reserve.Limit{day, rate}, []int{4, 0}, []int{10, 0}},
		{[]reserve.Limit{rolling, rate}, []int{4, 0}, []int{10, 0}},
		{[]reserve.Limit{day, rolling}, []int{4, 6}, []int{10, 6}},
		{[]reserve.Limit{rolling, day}, []int{4, 6}, []int{10, 6}},
		{[]reserve.Limit{day, hour}, []int{4, 4}, []int{10, 4}},
		{[]reserve.Limit{rate, warm, rate}, []int{4, 1, 0}, []int{6, 1, 0}},
		{[]reserve.Limit{day, rate, day}, []int{7, 0, 0}, []int{10, 0, 0}}, // 7 before, and the 6 that the bucket lacks
		{[]reserve.Limit{day, rate, hour, rolling}, []int{1, 0, 1, 2}, []int{10, 0, 1, 2}},
		{[]reserve.Limit{rolling, warm, day}, []int{4, 1, 4}, []int{10, 1, 5}},
	} {
		t.Run(fmt.Sprint(c.limits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, ctx := newBubble(t), t.Context()
				p := b.planned(reserve.Config{Limit: reserve.PerSecond(1)})
				older := b.planned(reserve.Config{Limit: reserve.PerSecond(1)})         // it hears of no change
				tool := b.with(reserve.Config{Limit: reserve.PerSecond(1)}).For("acme") // it has no plans
				acme := p.For("acme")
				for i, limit := range c.limits {
					p.plans.set("acme", limit, time.Now())
					require.Equal(t, limit.String(), acme.Limit().String())
					if i > 0 {
						now, err := acme.Allow(ctx)
						require.NoError(t, err)
						require.False(t, now, "no turn is due within a second of the change")
						time.Sleep(1100 * time.Millisecond)
					}
					allowed := 0
					for limiter := range 100 {
						if allowed == c.used[i] && c.used[i] < c.left[i] {
							break
						}
						ok, err := []*reserve.Limiter{acme, older.For("acme")}[limiter%2].Allow(ctx)
						require.NoError(t, err)
						if ok {
							allowed++
						}
					}
					require.Equal(t, c.used[i], allowed, limit)
					for _, of := range []*reserve.Limiter{acme, older.For("acme"), tool} {
						require.Equal(t, limit.String(), state(t, of).Limit.String())
						require.True(t, of == tool || limit.String() == of.Limit().String(), of.Limit())
					}
				}
			})
		})
	}
}

// What has left the window of a rolling limit counts no more under the next plan, and what was used of a window of the
// calendar counts until that window is over.
func TestPlansOfAnotherKindForgetWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBubble(t).planned(reserve.Config{Limit: reserve.PerSecond(1)})
		for _, c := range []struct {
			limit  reserve.Limit
			allows int
			then   time.Duration
		}{
			{reserve.Rolling(4, 3*time.Second), 4, 4 * time.Second},
			{reserve.Quota(6, reserve.CalendarMinute), 6, 10 * time.Second}, // of the 4, none
			{reserve.PerSecond(1).Burst(1), 0, time.Minute},
			{reserve.Quota(6, reserve.CalendarMinute), 6, 0}, // in the next window
		} {
			p.plans.set("acme", c.limit, time.Now())
			allowed := 0
			for i := range 9 {
				ok, err := p.For("acme").Allow(t.Context())
				require.NoError(t, err)
				if ok {
					allowed++
				}
				if i == 0 {
					time.Sleep(1100 * time.Millisecond)
				}
			}
			if c.allows > 0 {
				require.Equal(t, c.allows, allowed, c.limit)
			}
			time.Sleep(c.then)
		}
	})
}

// A plan of another kind ends an override, and an override has the kind of the plan. After a loss of data, a process that
// followed the plan brings it back.
func TestPlansOfAnotherKindAndTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := newBubble(t), t.Context()
		p, older := b.planned(reserve.Config{Limit: reserve.PerSecond(1)}), b.planned(reserve.Config{Limit: reserve.PerSecond(1)})
		acme, tool := p.For("acme"), b.with(reserve.Config{Limit: reserve.PerSecond(1)}).For("acme")
		require.NoError(t, acme.SetLimit(ctx, reserve.PerSecond(50), 0))
		p.plans.set("acme", reserve.Quota(10, reserve.CalendarHour), time.Now())
		require.NoError(t, acme.Wait(ctx))
		require.Equal(t, "10/hour quota", state(t, tool).Limit.String(), "the override is over")
		require.False(t, state(t, tool).Set)
		require.ErrorContains(t, acme.SetLimit(ctx, reserve.PerSecond(5), 0), "must be of kind quota")
		require.ErrorContains(t, b.with(reserve.Config{Limit: reserve.PerSecond(1)}).For("acme").SetLimit(ctx, reserve.PerSecond(5), 0), "a plan of kind quota is in force now")
		require.NoError(t, tool.SetLimit(ctx, reserve.Quota(3, reserve.CalendarHour), 0))
		require.Equal(t, "3/hour quota", state(t, acme).Limit.String())
		require.NoError(t, acme.ResetLimit(ctx))
		require.ErrorContains(t, older.For("acme").WaitN(ctx, 11), `at most the permits of "api/acme", which are 10 (10/hour quota)`)
		require.NoError(t, older.For("acme").Wait(ctx))
		require.Contains(t, older.log.String(), `follows it" limit=api/acme in_force="10/hour quota"`)

		require.NoError(t, p.Close())
		b.mini.FlushAll()
		time.Sleep(2 * time.Second)
		require.NoError(t, older.For("acme").Wait(ctx))
		require.Equal(t, "10/hour quota", state(t, tool).Limit.String())
		require.Equal(t, 7., state(t, tool).Stored, "of the window, what a process remembers stays used")
	})
}
