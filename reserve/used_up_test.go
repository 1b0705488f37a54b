package reserve_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// A window that processes know to be used up, or used in part, is not used beyond that while Redis
// is away: a strict provider refuses no call under the policy local. When the window has ended, calls
// go on at the share.
func TestUsedUpWhileRedisIsAway(t *testing.T) {
	const permits = 20
	for name, k := range map[string]kind{
		"quota":   {limit: reserve.Quota(permits, reserve.CalendarMinute).Margin(50 * time.Millisecond), rule: provider.FixedWindow(permits, time.Minute)},
		"rolling": {limit: reserve.Rolling(permits, time.Minute).Margin(50 * time.Millisecond), rule: provider.RollingWindow(permits, time.Minute)},
	} {
		for _, v := range []struct {
			processes, cost, spare int // spare: permits that nobody has used
			key                    string
		}{{1, 1, 0, ""}, {3, 1, 0, "tenant"}, {1, 3, 4, "tenant"}, {3, 3, 0, ""}, {3, 1, 4, ""}} {
			t.Run(fmt.Sprint(name, v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { usedUp(t, k, v.processes, v.cost, permits-v.spare, v.key) })
			})
		}
	}
}

func usedUp(t *testing.T, k kind, processes, cost, used int, key string) {
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
	b, f := newBubble(t), newLog()
	limits := make([]*reserve.Limiter, processes)
	for i := range limits {
		limits[i] = b.limiter(k.limit)
		if key != "" {
			limits[i] = limits[i].For(key)
		}
	}
	for i := range used/cost + processes { // all of them hear how much is used
		if ok, err := limits[i%processes].AllowN(t.Context(), min(cost, max(1, used-i*cost))); i < used/cost {
			require.NoError(t, err)
			require.True(t, ok)
			f.calls = append(f.calls, call{f.now(), cost, i % processes})
		} else if ok {
			f.calls = append(f.calls, call{f.now(), min(cost, max(1, used-i*cost)), i % processes})
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(1500 * time.Millisecond) // until all know how many they are
	b.mini.SetError(loading)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(4*time.Minute, cancel) // a deadline would end calls at once
	for p, l := range limits {
		for range 5 {
			f.busy.Go(func() {
				for ctx.Err() == nil {
					if l.WaitN(ctx, cost) == nil {
						f.mu.Lock()
						f.calls = append(f.calls, call{f.now(), cost, p})
						f.mu.Unlock()
					}
				}
			})
		}
	}
	time.Sleep(2 * time.Minute)
	away := f.now()
	b.mini.SetError("")
	<-ctx.Done()
	api := provider.New(k.rule)
	begun, total := f.begun, 0
	for i, c := range f.all() {
		ok, _ := api.JudgeAt(begun.Add(c.after), c.cost)
		assert.True(t, ok, "call %d after %v", i, c.after)
	}
	for _, c := range f.between(70*time.Second, away) {
		total += c.cost
	}
	share := 0.9 * k.limit.Rate() * (away - 70*time.Second).Seconds()
	assert.GreaterOrEqual(t, float64(total), share-float64(cost*processes)-2, "it goes on when the window has ended")
	assert.NotEmpty(t, f.between(away, time.Hour), "and when Redis is back")
}
