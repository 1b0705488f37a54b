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

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// group makes limiters of one process, of one group.
func (b *bubble) group(limits ...reserve.Limit) []*reserve.Limiter {
	return b.groupOn(&wire{}, limits...)
}

// groupOn is group, on a wire.
func (b *bubble) groupOn(w *wire, limits ...reserve.Limit) []*reserve.Limiter {
	client := b.client()
	client.AddHook(w)
	var all []*reserve.Limiter
	for i, limit := range limits {
		l, err := reserve.New(client, reserve.Config{Name: fmt.Sprint("limit-", i), Group: "api", Limit: limit})
		require.NoError(b.t, err)
		b.t.Cleanup(func() { _ = l.Close() })
		all = append(all, l)
	}
	return all
}

func joint(t testing.TB, limits ...*reserve.Limiter) *reserve.Joint {
	j, err := reserve.All(limits...)
	require.NoError(t, err)
	return j
}

// Four processes use up three limits of different kinds together: strict providers of each
// refuse none, and the tightest is used.
func TestJointFleet(t *testing.T) {
	inParallel(t)
	const processes, each = 4, 40
	for name, limits := range map[string][]reserve.Limit{
		"requests and tokens":   {reserve.PerSecond(10).Burst(2), reserve.PerSecond(100).Burst(60), reserve.Quota(10000, reserve.CalendarDay)},
		"a quota is tightest":   {reserve.PerSecond(50).Burst(5), reserve.PerSecond(10000).Burst(100), reserve.Quota(100, reserve.CalendarMinute)},
		"bursts of one":         {reserve.PerSecond(10), reserve.PerSecond(7).Burst(60), reserve.Quota(10000, reserve.CalendarHour)},
		"a window is tightest":  {reserve.PerSecond(50).Burst(5), reserve.PerSecond(10000).Burst(100), reserve.Rolling(40, 10*time.Second)},
		"one of them warms up":  {reserve.PerSecond(50).Burst(5), reserve.PerSecond(10000).Burst(100), reserve.PerSecond(10).WarmUp(2 * time.Second)},
		"all of them are paced": {reserve.PerSecond(20).Burst(3), reserve.PerSecond(120).Burst(80), reserve.PerMinute(600).Burst(20)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				var mu sync.Mutex
				type call struct {
					at   time.Time
					cost int
				}
				var calls []call
				var done sync.WaitGroup
				start := time.Now()
				for p := range processes {
					j := joint(t, b.group(limits...)...)
					for i := range each {
						done.Go(func() {
							cost := 1 + (p*7+i*3)%20
							if !assert.NoError(t, j.Wait(context.Background(), 1, cost, 1)) {
								return
							}
							mu.Lock()
							defer mu.Unlock()
							calls = append(calls, call{time.Now(), cost})
						})
						time.Sleep(time.Millisecond)
					}
				}
				done.Wait()
				slices.SortFunc(calls, func(a, b call) int { return a.at.Compare(b.at) })
				rules := make([]*provider.Provider, len(limits))
				for i, limit := range limits {
					rules[i] = provider.New(strictRule(limit))
				}
				for n, c := range calls {
					for i, cost := range []int{1, c.cost, 1} {
						ok, _ := rules[i].JudgeAt(c.at, cost)
						assert.True(t, ok, "limit %v refuses call %d at %v", limits[i], n, c.at.Sub(start))
					}
				}
				took := calls[len(calls)-1].at.Sub(start)
				t.Logf("%d calls in %v", len(calls), took)
				require.Len(t, calls, processes*each)
				require.Less(t, took, leastTime(limits, processes*each, tokens(processes, each))*105/100+2*time.Second)
			})
		})
	}
}

func tokens(processes, each int) (sum int) {
	for p := range processes {
		for i := range each {
			sum += 1 + (p*7+i*3)%20
		}
	}
	return sum
}

// strictRule is a provider's promise with as much more burst as two roundings need.
func strictRule(limit reserve.Limit) provider.Rule {
	switch limit.Kind() {
	case reserve.KindQuota:
		window := map[int]time.Duration{10000: 24 * time.Hour, 100: time.Minute}[limit.MaxBurst()]
		return provider.FixedWindow(limit.MaxBurst(), window)
	case reserve.KindRolling:
		return provider.RollingWindow(limit.MaxBurst(), 10*time.Second)
	default:
		// What is left of a permit is never enough for another one.
		return provider.TokenBucket(limit.Rate()*1.0001, limit.MaxBurst())
	}
}

// leastTime is how long calls take at least.
func leastTime(limits []reserve.Limit, calls, tokens int) time.Duration {
	most := time.Duration(0)
	for i, limit := range limits {
		n := calls
		if i == 1 {
			n = tokens
		}
		seconds := float64(n-limit.MaxBurst()) / limit.Rate()
		if limit.Kind() == reserve.KindWarmingUp {
			seconds += 3
		}
		most = max(most, time.Duration(seconds*float64(time.Second)))
		if limit.Kind() == reserve.KindQuota && n > limit.MaxBurst() { // whole windows
			most = max(most, time.Duration((n-1)/limit.MaxBurst())*time.Minute)
		}
	}
	return most
}

// One tenant has an hour of backlog under a limit that it shares: the others wait no longer
// than an interval more than they do without it.
func TestTenantWithABacklog(t *testing.T) {
	inParallel(t)
	waits := func(t *testing.T, backlog int) (waits []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			ctx, cancel := context.WithCancel(context.Background())
			var mu sync.Mutex
			var waiting, done sync.WaitGroup
			account, tenants := reserve.PerSecond(20).Burst(2), reserve.PerSecond(1)
			slow := b.group(account, tenants)
			for range backlog {
				j := joint(t, slow[0], slow[1].For("slow"))
				waiting.Go(func() { _ = j.Wait(ctx) })
			}
			synctest.Wait()
			time.Sleep(2 * time.Second)
			other := b.group(account, tenants)
			for range 40 {
				for tenant := range 5 {
					j := joint(t, other[0], other[1].For(fmt.Sprint("tenant-", tenant)))
					done.Go(func() {
						began := time.Now()
						assert.NoError(t, j.Wait(context.Background()))
						mu.Lock()
						defer mu.Unlock()
						waits = append(waits, time.Since(began))
					})
					synctest.Wait() // one at a time
				}
				time.Sleep(1050 * time.Millisecond)
			}
			done.Wait()
			cancel()
			waiting.Wait()
		})
		slices.Sort(waits)
		return waits
	}
	backlog := 3600
	if !long || raceDetector {
		backlog = 200
	}
	without, with := waits(t, 0), waits(t, backlog)
	n := len(with)
	t.Logf("others' waits without a backlog: median %v, worst %v; with one of %d calls: median %v, worst %v",
		without[n/2], without[n-1], backlog, with[n/2], with[n-1])
	for i := range with {
		require.LessOrEqual(t, with[i], without[i]+50*time.Millisecond, "the %dth of %d", i, n)
	}
}

func TestJointSaysWhatHoldsACallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(10).Burst(5), reserve.PerMinute(6))
		j := joint(t, limits...)
		require.NoError(t, j.Wait(t.Context(), 1, 1))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := j.Wait(ctx)
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
		require.ErrorContains(t, err, `held back by "limit-1"`)
		var e *reserve.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "limit-0 + limit-1", e.Key)
		require.InDelta(t, 10*time.Second, e.Wait, float64(time.Millisecond))
		ok, err := j.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, ok)
		require.Zero(t, waiting(t, limits[0])+waiting(t, limits[1]), "who is refused leaves nothing behind")

		r, err := j.Reserve(t.Context())
		require.NoError(t, err)
		require.Equal(t, limits[1], r.HeldBy())
		require.InDelta(t, 10*time.Second, time.Until(r.Due()), float64(time.Millisecond))
		require.EqualValues(t, 0, waiting(t, limits[0]), "it waits in one only")
		require.EqualValues(t, 1, waiting(t, limits[1]))
		require.NoError(t, r.Cancel(t.Context()))
		require.NoError(t, r.Cancel(t.Context()))
		require.ErrorIs(t, r.Wait(t.Context()), reserve.ErrCancelled)
		require.Zero(t, waiting(t, limits[1]))

		time.Sleep(10 * time.Second)
		ok, err = j.Allow(t.Context(), 5, 1)
		require.NoError(t, err)
		require.True(t, ok, "what was cancelled is there again")
	})
}

func waiting(t *testing.T, l *reserve.Limiter) int64 {
	s, err := l.State(t.Context())
	require.NoError(t, err)
	return s.Waiting
}

// Who leaves while it waits, or just before its turn, leaves all limits.
func TestJointLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(1), reserve.PerSecond(1).Burst(10), reserve.Quota(3, reserve.CalendarDay), reserve.Rolling(3, time.Hour))
		j := joint(t, limits...)
		require.NoError(t, j.Wait(t.Context()))
		for _, patience := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(patience, cancel)
			require.ErrorIs(t, j.Wait(ctx), context.Canceled)
			synctest.Wait()
		}
		start := time.Now()
		require.NoError(t, j.Wait(t.Context()))
		require.NoError(t, j.Wait(t.Context()))
		require.Less(t, time.Since(start), 3*time.Second, "three of a quota of three")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, j.Wait(ctx), reserve.ErrWouldMissDeadline)
	})
}

// A pause of one of the limits holds for calls that need it and others.
func TestJointHeedsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHearingBubble(t)
		limits := b.group(reserve.PerSecond(10), reserve.PerSecond(100).Burst(10))
		j := joint(t, limits...)
		start := time.Now()
		var mu sync.Mutex
		var calls []time.Duration
		var done sync.WaitGroup
		for range 40 {
			done.Go(func() {
				assert.NoError(t, j.Wait(context.Background()))
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, time.Since(start))
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		require.NoError(t, limits[1].Pause(t.Context(), 5*time.Second, "Retry-After"))
		synctest.Wait()
		done.Wait()
		slices.Sort(calls)
		require.Len(t, calls, 40)
		for i, at := range calls {
			if i > 10 {
				require.GreaterOrEqual(t, at, 6*time.Second-time.Millisecond)
				require.GreaterOrEqual(t, at-calls[i-1], 99*time.Millisecond)
			}
		}
		require.Less(t, calls[39], 9300*time.Millisecond)
	})
}

// What calls used less lets others come earlier; what they used more, later.
func TestJointSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(1000).Burst(4000), reserve.Quota(120000, reserve.CalendarDay))
		j := joint(t, limits...)
		judge := provider.New(provider.TokenBucket(1000, 4000))
		start := time.Now()
		var mu sync.Mutex
		var done sync.WaitGroup
		var used int
		for i := range 200 {
			done.Go(func() {
				r, err := j.Reserve(context.Background(), 1000, 1000)
				if !assert.NoError(t, err) || !assert.NoError(t, r.Wait(context.Background())) {
					return
				}
				actual := 300 + (i*37)%400
				ok, _ := judge.Judge(actual)
				assert.True(t, ok, "call %d at %v", i, time.Since(start))
				mu.Lock()
				used += actual
				mu.Unlock()
				time.Sleep(2 * time.Second) // the answer takes its time
				assert.NoError(t, r.Settle(context.Background(), actual, actual))
				assert.ErrorIs(t, r.Settle(context.Background(), actual, actual), reserve.ErrInvalid)
			})
			synctest.Wait()
		}
		done.Wait()
		took := time.Since(start) - 2*time.Second
		t.Logf("%d tokens used of 1,000/s in %v: %.3f; 200,000 were estimated", used, took, float64(used-4000)/took.Seconds()/1000)
		require.Greater(t, float64(used-4000)/took.Seconds(), 900.0)
		require.NoError(t, j.Wait(t.Context(), 1, 4000), "the quota has what was given back")

		r, err := j.Reserve(t.Context(), 1000, 1000)
		require.NoError(t, err)
		require.NoError(t, r.Wait(t.Context()))
		before, err := limits[0].State(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Settle(t.Context(), 3000, -1))
		after, err := limits[0].State(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 2*time.Second, after.NextFree.Sub(before.NextFree), float64(10*time.Millisecond))
	})
}

func TestJointWithoutRedis(t *testing.T) {
	for policy, check := range map[reserve.Policy]func(t *testing.T, took time.Duration, err error){
		reserve.PolicyFail: func(t *testing.T, took time.Duration, err error) {
			require.ErrorIs(t, err, reserve.ErrUnavailable)
		},
		reserve.PolicyOpen: func(t *testing.T, took time.Duration, err error) {
			require.NoError(t, err)
			require.Less(t, took, 3*time.Second)
		},
		reserve.PolicyLocal: func(t *testing.T, took time.Duration, err error) {
			require.NoError(t, err)
			require.Less(t, took, 10*time.Second)
		},
		reserve.PolicyWait: func(t *testing.T, took time.Duration, err error) {
			require.NoError(t, err)
			require.Greater(t, took, 19*time.Second)
		},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				client := b.client()
				var limits []*reserve.Limiter
				for i, limit := range []reserve.Limit{reserve.PerSecond(10), reserve.Quota(1000, reserve.CalendarHour)} {
					l, err := reserve.New(client, reserve.Config{
						Name: fmt.Sprint("limit-", i), Group: "api", Limit: limit, Outage: reserve.Outage{Policy: policy},
					})
					require.NoError(t, err)
					t.Cleanup(func() { _ = l.Close() })
					limits = append(limits, l)
				}
				j := joint(t, limits...)
				require.NoError(t, j.Wait(t.Context()))
				b.redis.SetError("LOADING Redis is loading the dataset in memory")
				time.AfterFunc(20*time.Second, func() { b.redis.SetError("") })
				start := time.Now()
				err := j.Wait(t.Context())
				check(t, time.Since(start), err)
				time.Sleep(30 * time.Second)
				require.NoError(t, j.Wait(t.Context()), "Redis is back")
			})
		})
	}
}

func TestAllRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		limits := b.group(reserve.PerSecond(1), reserve.PerSecond(1))
		other, err := reserve.New(b.client(), reserve.Config{Name: "other", Group: "api", Limit: reserve.PerSecond(1)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = other.Close() })
		alone := b.limiter(reserve.PerSecond(1))
		for want, all := range map[string][]*reserve.Limiter{
			"from 1 to 8":              {},
			"not be nil":               {nil},
			`"limit-0" is there twice`: {limits[0], limits[1], limits[0]},
			"the same client":          {limits[0], other},
			"from 1 to 512 bytes":      {limits[0], limits[1].For("")},
		} {
			_, err := reserve.All(all...)
			require.ErrorIs(t, err, reserve.ErrInvalid, want)
			require.ErrorContains(t, err, want)
		}
		_, err = reserve.All(alone.For("a"), alone.For("b"))
		require.NoError(t, err, "keys of one limiter are in one slot")
		j := joint(t, limits...)
		require.ErrorContains(t, j.Wait(t.Context(), 1), "one for each of the 2 limits, got 1")
		require.ErrorIs(t, j.Wait(t.Context(), 1, 2), reserve.ErrExceedsBurst)
		require.ErrorContains(t, j.Wait(t.Context(), 0, 1), "n: must be at least 1, got 0")
	})
}
