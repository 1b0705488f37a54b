package reserve_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// Four processes use three limits of different kinds together: strict providers of each refuse
// none, and the tightest is used.
func TestJointFleet(t *testing.T) {
	const processes, calls = 4, 40
	margin := 50 * time.Millisecond
	for name, c := range map[string]struct {
		limits [3]reserve.Limit
		rules  [3]provider.Rule
		most   time.Duration
	}{
		"requests and tokens": {
			[3]reserve.Limit{reserve.PerSecond(10).Burst(2), reserve.PerSecond(100).Burst(60), reserve.Quota(10000, reserve.CalendarDay)},
			[3]provider.Rule{provider.TokenBucket(10.001, 3), provider.TokenBucket(100.01, 63), provider.FixedWindow(10000, 24*time.Hour)},
			20 * time.Second,
		},
		"a quota is tightest": {
			[3]reserve.Limit{reserve.PerSecond(50).Burst(5), reserve.PerSecond(10000).Burst(100), reserve.Quota(100, reserve.CalendarMinute).Margin(margin)},
			[3]provider.Rule{provider.TokenBucket(50.005, 7), provider.TokenBucket(10000, 400), provider.FixedWindow(100, time.Minute)},
			65 * time.Second,
		},
		"a window is tightest": {
			[3]reserve.Limit{reserve.PerSecond(50).Burst(5), reserve.PerSecond(10000).Burst(100), reserve.Rolling(40, 10*time.Second).Margin(margin)},
			[3]provider.Rule{provider.TokenBucket(50.005, 7), provider.TokenBucket(10000, 400), provider.RollingWindow(40, 10*time.Second)},
			33 * time.Second,
		},
		"one of them warms up": {
			[3]reserve.Limit{reserve.PerSecond(50).Burst(5), reserve.PerSecond(10000).Burst(100), reserve.PerSecond(10).WarmUp(2 * time.Second)},
			[3]provider.Rule{provider.TokenBucket(50.005, 7), provider.TokenBucket(10000, 400), provider.TokenBucket(10.001, 2)},
			20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				f := newLog()
				for p := range processes {
					j := joint(t, b.group(c.limits[:]...)...)
					for i := range calls {
						cost := 1 + (p*7+i*3)%20
						f.wait(t, cost, p, func(ctx context.Context) error { return j.Wait(ctx, 1, cost, 1) })
					}
				}
				made := f.all()
				require.Len(t, made, processes*calls)
				for k, rule := range c.rules {
					api := provider.New(rule)
					for n, call := range made {
						cost := []int{1, call.cost, 1}[k]
						ok, _ := api.JudgeAt(f.begun.Add(call.after), cost)
						assert.True(t, ok, "%v refuses call %d after %v", c.limits[k], n, call.after)
					}
				}
				took := made[len(made)-1].after
				t.Logf("%d calls in %v", len(made), took)
				assert.LessOrEqual(t, took, c.most)
			})
		})
	}
}

// A Joint of one limit is that limit; one of several takes from all or from none.
func TestJointTakesFromAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerHour(1).Burst(10), reserve.Quota(5, reserve.CalendarDay), reserve.Rolling(7, 24*time.Hour))
		j := joint(t, limits...)
		for _, c := range []struct {
			costs []int
			want  bool
		}{{[]int{4, 4, 4}, true}, {[]int{1, 2, 1}, false}, {[]int{1, 1, 4}, false}, {[]int{6, 1, 3}, true}, {nil, false}} {
			ok, err := j.Allow(t.Context(), c.costs...)
			require.NoError(t, err)
			assert.Equal(t, c.want, ok, c.costs)
		}
		for i, l := range limits {
			assert.False(t, allowed(t, l, 1), "limit %d is used up exactly", i)
		}
		one := joint(t, limits[0])
		ok, err := one.Allow(t.Context())
		require.NoError(t, err)
		assert.False(t, ok)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		require.NoError(t, one.Wait(ctx))

		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = j.Wait(short)
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
		var e *reserve.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "wait", e.Op)
		assert.Equal(t, "limit-0 + limit-1 + limit-2", e.Key)
		assert.Equal(t, "limit-0 + limit-1 + limit-2", j.String())
		assert.Equal(t, limits, j.Limits())
		assert.Equal(t, limits[:1], limits[0].Limits())
		assert.Equal(t, "api", limits[0].Group())
	})
}

// A call whose turn would come after its deadline hears which limit that is due to.
func TestJointNamesTheLimitThatIsTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := joint(t, newBubble(t).group(reserve.PerSecond(10), reserve.PerHour(1))...)
		require.NoError(t, j.Wait(t.Context()))
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var e *reserve.Error
		require.ErrorAs(t, j.Wait(short), &e)
		assert.Equal(t, "limit-1", e.HeldBy)
		require.ErrorContains(t, e, `held back by "limit-1"`)
	})
}

// A tenant with an hour of backlog does not hold up those with whom it shares an account.
func TestJointOfATenantAndAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(20), reserve.PerSecond(1))
		account, tenants := limits[0], limits[1]
		ctx, cancel := context.WithCancel(t.Context())
		flood := joint(t, account, tenants.For("flood"))
		gone := make(chan error)
		for range 100 {
			go func() { gone <- flood.Wait(ctx) }()
		}
		time.Sleep(2 * time.Second)
		f := newLog()
		for i := range 10 {
			f.wait(t, 1, i, once(joint(t, account, tenants.For(fmt.Sprint(i)))))
		}
		f.all()
		assert.LessOrEqual(t, f.calls[9].after, 1500*time.Millisecond)
		cancel()
		for range 100 {
			<-gone
		}
	})
}

// Limits that can not be asked for together are refused, by name.
func TestAllOfWhatDoesNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		made := func(change func(*reserve.Config)) *reserve.Limiter {
			config := reserve.Config{Name: "other", Group: "g", Limit: reserve.PerSecond(1)}
			change(&config)
			return b.on(client, config)
		}
		l := b.on(client, reserve.Config{Name: "one", Group: "g", Limit: reserve.PerSecond(1)})
		nine := make([]*reserve.Limiter, 9)
		for i := range nine {
			nine[i] = l.For(fmt.Sprint(i))
		}
		for says, limits := range map[string][]*reserve.Limiter{
			"from 1 to 8, got 0":         nil,
			"from 1 to 8, got 9":         nine,
			"must not be nil":            {l, nil},
			`"one" is there twice`:       {l, l},
			`"one/a" is there twice`:     {l.For("a"), l, l.For("a")},
			"same client":                {l, b.with(reserve.Config{Name: "two", Group: "g", Limit: reserve.PerSecond(1)})},
			`has "p", and "one" "fleet`:  {l, made(func(c *reserve.Config) { c.Prefix = "p" })},
			`has "h", and "one" "g"`:     {l, made(func(c *reserve.Config) { c.Group = "h" })},
			`has "", and "one" "g"`:      {l, made(func(c *reserve.Config) { c.Group = "" })},
			"which is not empty":         {made(func(c *reserve.Config) { c.Group = "" }), made(func(c *reserve.Config) { c.Group = "" })},
			"must have the same Config.": {l, made(func(c *reserve.Config) { c.Outage.Policy = reserve.PolicyWait })},
			"Config.Outage":              {l, made(func(c *reserve.Config) { c.Outage.Safety = 0.5 })},
			"key: must be from 1":        {l, l.For("")},
		} {
			_, err := reserve.All(limits...)
			require.ErrorIs(t, err, reserve.ErrInvalid, says)
			assert.ErrorContains(t, err, says)
			var e *reserve.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "all", e.Op)
		}
		_, err := reserve.All(l, made(func(*reserve.Config) {}), l.For("a"), l.For("b"))
		require.NoError(t, err)
		one := b.limiter(reserve.PerSecond(1)) // of no group
		_, err = reserve.All(one, one.For("a"))
		require.NoError(t, err)
		assert.Zero(t, b.asks.Load(), "nothing was asked")
	})
}

// Costs of a Joint are corrected at each limit.
func TestSettleOfAJoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		calls := b.on(client, reserve.Config{Name: "calls", Group: "g", Limit: reserve.PerSecond(1).Burst(10)})
		tokens := b.on(client, reserve.Config{Name: "tokens", Group: "g", Limit: reserve.Quota(100, reserve.CalendarDay), Settles: true})
		j := joint(t, calls, tokens)
		r, err := j.Reserve(t.Context(), 1, 90)
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
		assert.False(t, allowed(t, tokens, 50))
		require.NoError(t, r.Settle(t.Context(), -1, 20))
		assert.True(t, allowed(t, tokens, 80))
		assert.False(t, allowed(t, tokens, 1))

		r, err = joint(t, calls).Reserve(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
		require.ErrorIs(t, r.Settle(t.Context(), 1), reserve.ErrInvalid)
	})
}

// A group is shared by all Limiters of a process that were made alike, so that its calls have
// their turns in one order.
func TestAGroupInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(10), reserve.PerSecond(10))
		f := newLog()
		ways := []func(context.Context) error{limits[0].Wait, once(joint(t, limits...)), limits[1].Wait}
		for i := range 90 {
			f.wait(t, 1, i%3, ways[i%3])
		}
		made := f.all()
		last := slices.MaxFunc(made, func(a, b call) int { return int(a.after - b.after) })
		assert.LessOrEqual(t, last.after, 7750*time.Millisecond, "each limit has 60 calls; one after another all would take 9 s")
		assert.EqualValues(t, 1, state(t, limits[0]).Processes)
	})
}

// Two Limiters of one name in one group of a process agree on the slower limit.
func TestTwoLimitsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		f := newLog()
		for p, limit := range []reserve.Limit{reserve.PerSecond(10), reserve.PerSecond(1)} {
			l := b.on(client, reserve.Config{Name: "a", Group: "g", Limit: limit})
			require.NoError(t, l.Wait(context.Background()))
			time.Sleep(3 * time.Second)
			for range 10 {
				f.wait(t, 1, p, l.Wait)
			}
		}
		time.Sleep(5 * time.Second)
		late := len(f.between(f.now()-5*time.Second, f.now()))
		assert.InDelta(t, 5, late, 1)
		assert.EqualValues(t, 1, state(t, b.on(client, reserve.Config{Name: "a", Group: "g", Limit: reserve.PerSecond(1)})).Processes)
		f.all()
	})
}

// once is Wait for one permit of each limit.
func once(j *reserve.Joint) func(context.Context) error {
	return func(ctx context.Context) error { return j.Wait(ctx) }
}
