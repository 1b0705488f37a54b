package reserve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// kind is a limit of each kind, of which a whole idle one serves `burst` calls at once.
type kind struct {
	limit reserve.Limit
	other reserve.Limit // of the same kind
	rule  provider.Rule // a strict provider of it, which bears 20 ms of jitter
	most  time.Duration // that 40 calls take after the first ones
	burst int
}

var kinds = map[string]kind{
	"paced": {
		reserve.PerSecond(20).Burst(5), reserve.PerSecond(5).Burst(2),
		provider.TokenBucket(20.01, 6), 2 * time.Second, 5,
	},
	"quota": {
		reserve.Quota(15, reserve.CalendarMinute).Margin(50 * time.Millisecond),
		reserve.Quota(5, reserve.CalendarMinute),
		provider.FixedWindow(15, time.Minute), 3 * time.Minute, 15,
	},
	"rolling": {
		reserve.Rolling(12, 10*time.Second).Margin(50 * time.Millisecond), reserve.Rolling(6, 20*time.Second),
		provider.RollingWindow(12, 10*time.Second), 32 * time.Second, 12,
	},
	"warming up": {
		reserve.PerSecond(20).Burst(5).WarmUp(2 * time.Second), reserve.PerSecond(5).WarmUp(time.Second),
		provider.TokenBucket(20.01, 6), 5 * time.Second, 1,
	},
}

// each runs a test for each kind, on the minute.
func each(t *testing.T, test func(t *testing.T, b *bubble, k kind)) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
				test(t, newBubble(t), k)
			})
		})
	}
}

// Three processes wait for the same limit: a strict provider refuses no call, and no call
// comes later than it has to.
func TestWaitOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		f := newLog()
		for p := range 3 {
			l := b.limiter(k.limit)
			for range 14 {
				f.wait(t, 1, p, l.Wait)
			}
		}
		api := provider.New(k.rule)
		for i, c := range f.all() {
			ok, _ := api.JudgeAt(f.begun.Add(c.after), c.cost)
			assert.True(t, ok, "call %d after %v", i, c.after)
		}
		assert.Len(t, f.calls, 42)
		assert.LessOrEqual(t, f.calls[41].after, k.most)
	})
}

func TestAllowOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		one, two := b.limiter(k.limit), b.limiter(k.limit)
		for i := range k.burst {
			assert.True(t, allowed(t, []*reserve.Limiter{one, two}[i%2], 1), "call %d", i)
		}
		start := time.Now()
		assert.False(t, allowed(t, one, 1))
		assert.False(t, allowed(t, two, 1))
		assert.LessOrEqual(t, time.Since(start), 10*time.Millisecond, "it does not wait")
		assert.Zero(t, state(t, one).Waiting, "it has no place")
		time.Sleep(time.Minute)
		assert.True(t, allowed(t, one, 1))
	})
}

// A pause holds back all that wait; they follow when it is over, or is ended.
func TestPauseAndResumeOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		one, two := b.limiter(k.limit), b.limiter(k.limit)
		f := newLog()
		require.NoError(t, one.Pause(t.Context(), 3*time.Second, "told so"))
		assert.False(t, allowed(t, two, 1))
		s := state(t, two)
		assert.InDelta(t, 3*time.Second, s.Paused, float64(20*time.Millisecond))
		assert.Equal(t, "told so", s.PauseReason)
		assert.GreaterOrEqual(t, s.Wait, 2900*time.Millisecond)
		for p, l := range []*reserve.Limiter{one, two} {
			f.wait(t, 1, p, l.Wait)
		}
		f.all()
		require.Len(t, f.calls, 2)
		assert.GreaterOrEqual(t, f.calls[0].after, 3*time.Second)
		assert.LessOrEqual(t, f.calls[1].after, 3500*time.Millisecond)
		assert.Zero(t, state(t, two).Paused)
		assert.Empty(t, state(t, two).PauseReason)

		require.NoError(t, one.Pause(t.Context(), time.Hour, ""))
		f = newLog()
		f.wait(t, 1, 0, two.Wait)
		time.Sleep(5 * time.Second)
		assert.Empty(t, f.between(0, time.Hour))
		require.NoError(t, one.Resume(t.Context()))
		f.all()
		assert.LessOrEqual(t, f.calls[0].after, 5500*time.Millisecond)
		require.NoError(t, two.Resume(t.Context()), "there is no pause")
	})
}

// Another limit is in force for all, until it is reset or its time is over.
func TestSetLimitOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		one, two := b.limiter(k.limit), b.limiter(k.limit)
		is := func(limit reserve.Limit) {
			t.Helper()
			s := state(t, two)
			assert.InDelta(t, limit.Rate(), s.Rate, 0.01*limit.Rate())
			if k.limit.Kind() != reserve.KindWarmingUp { // it has none that could be set
				assert.Equal(t, limit.MaxBurst(), s.Burst)
			}
		}
		is(k.limit)
		require.NoError(t, one.SetLimit(t.Context(), k.other, 0))
		is(k.other)
		require.NoError(t, one.ResetLimit(t.Context()))
		require.NoError(t, one.ResetLimit(t.Context()), "once more")
		is(k.limit)
		require.NoError(t, two.SetLimit(t.Context(), k.other, 10*time.Second))
		is(k.other)
		time.Sleep(11 * time.Second)
		is(k.limit)
	})
}

// A slower limit is kept by a strict provider of it.
func TestSlowerLimitOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		one, two := b.limiter(k.limit), b.limiter(k.limit)
		require.NoError(t, one.SetLimit(t.Context(), k.other, 0))
		f := newLog()
		for range 12 {
			f.wait(t, 1, 0, two.Wait)
		}
		f.all()
		least := map[reserve.Kind]time.Duration{
			reserve.KindPaced: 2 * time.Second, reserve.KindQuota: 119 * time.Second,
			reserve.KindRolling: 20 * time.Second, reserve.KindWarmingUp: 2 * time.Second,
		}[k.limit.Kind()]
		assert.GreaterOrEqual(t, f.calls[11].after, least-20*time.Millisecond)
		assert.LessOrEqual(t, f.calls[11].after, 2*least+time.Second)
	})
}

// What a window was used beyond a lower limit is not taken from the windows behind it: a call
// waits for the next window, and no longer.
func TestAQuotaThatIsLowered(t *testing.T) {
	for name, lower := range map[string]func(t *testing.T, l *reserve.Limiter){
		"set": func(t *testing.T, l *reserve.Limiter) {
			require.NoError(t, l.WaitN(t.Context(), 12))
			require.NoError(t, l.SetLimit(t.Context(), reserve.Quota(5, reserve.CalendarMinute), 0))
		},
		"settled": func(t *testing.T, l *reserve.Limiter) {
			r := held(t, l, 1)
			require.NoError(t, r.Wait(t.Context()))
			require.NoError(t, r.Settle(t.Context(), 45))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(80 * time.Second)))
				l := b.with(reserve.Config{Limit: reserve.Quota(20, reserve.CalendarMinute), Settles: true})
				require.NoError(t, l.Wait(t.Context()))
				lower(t, l)
				assert.InDelta(t, 40*time.Second, state(t, l).Wait, float64(100*time.Millisecond))
				start := time.Now()
				require.NoError(t, l.Wait(t.Context()))
				assert.InDelta(t, 40*time.Second, time.Since(start), float64(100*time.Millisecond))
			})
		})
	}
}

func TestStateOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		l := b.limiter(k.limit)
		fresh := state(t, l)
		assert.InDelta(t, k.limit.Rate(), fresh.Rate, 1e-9)
		assert.Equal(t, k.limit.MaxBurst(), fresh.Burst)
		assert.Zero(t, fresh.Wait)
		assert.Zero(t, fresh.Waiting)
		for range k.burst {
			require.NoError(t, l.Wait(t.Context()))
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		for range 10 {
			go func() { gone <- l.Wait(ctx) }()
		}
		time.Sleep(8 * time.Millisecond)
		s := state(t, l)
		assert.Positive(t, s.Wait)
		assert.Positive(t, s.Waiting)
		assert.Equal(t, k.limit.Kind() != reserve.KindPaced, s.NextFree.IsZero())
		cancel()
		for range 10 {
			<-gone
		}
		time.Sleep(100 * time.Millisecond)
		assert.Zero(t, state(t, l).Waiting, "they have left")
	})
}

// A process whose clock is some seconds before or behind that of Redis counts in the same
// windows.
func TestQuotaByRedisClock(t *testing.T) {
	for _, off := range []time.Duration{-50 * time.Second, -2 * time.Second, 2 * time.Second, 110 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			edge := time.Now().Truncate(time.Minute).Add(off).Truncate(time.Minute).Add(time.Minute)
			b.mini.SetTime(edge.Add(-time.Second))
			l := b.limiter(reserve.Quota(3, reserve.CalendarMinute))
			for range 3 {
				assert.True(t, allowed(t, l, 1))
			}
			assert.False(t, allowed(t, l, 1))
			time.Sleep(2 * time.Second)
			b.mini.SetTime(edge.Add(time.Second))
			assert.True(t, allowed(t, l, 1))
		})
	}
}

// Quotas are counted in the time zone of their limit.
func TestQuotaInItsZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone, err := time.LoadLocation("Asia/Kolkata") // half an hour beside UTC
		require.NoError(t, err)
		time.Sleep(time.Until(time.Now().Truncate(24 * time.Hour).Add(42*time.Hour + 25*time.Minute)))
		l := newBubble(t).limiter(reserve.Quota(2, reserve.CalendarDay).In(zone))
		require.NoError(t, l.WaitN(t.Context(), 2))
		start := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		assert.InDelta(t, 5*time.Minute, time.Since(start), float64(50*time.Millisecond), "18:30 UTC is midnight there")
	})
}

// A wall clock that is wrong does not matter, also for quotas.
func TestQuotaOfAProcessWithAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		b.mini.SetTime(time.Now().Truncate(time.Minute).Add(5*time.Hour + 50*time.Second))
		l := b.limiter(reserve.Quota(3, reserve.CalendarMinute))
		for range 3 {
			assert.True(t, allowed(t, l, 1))
		}
		assert.False(t, allowed(t, l, 1))
		b.mini.SetTime(time.Now().Truncate(time.Minute).Add(5*time.Hour + 61*time.Second))
		assert.True(t, allowed(t, l, 1))
	})
}
