package reserve_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

func TestPauseIsCutToTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var text bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&text, nil))
		l := b.with(reserve.Config{Limit: reserve.PerSecond(10), MaxPause: time.Minute, Logger: logger})
		require.NoError(t, l.Pause(t.Context(), time.Hour, "ever"))
		assert.InDelta(t, time.Minute, state(t, l).Paused, float64(20*time.Millisecond))
		assert.Contains(t, text.String(), `level=WARN msg="fleetpace: a pause is cut to Config.MaxPause" limit=api pause=1h0m0s max=1m0s reason=ever`)
		assert.Contains(t, text.String(), `level=INFO msg="fleetpace: paused" limit=api pause=1m0s reason=ever`)

		// Of a Joint, each limit is cut by itself.
		client := b.client()
		one := b.on(client, reserve.Config{Name: "one", Group: "g", Limit: reserve.PerSecond(1), MaxPause: time.Second})
		two := b.on(client, reserve.Config{Name: "two", Group: "g", Limit: reserve.PerSecond(1)})
		j := joint(t, one, two, one.For("a"))
		require.NoError(t, j.PauseUntil(t.Context(), time.Now().Add(time.Hour), ""))
		states, err := j.States(t.Context())
		require.NoError(t, err)
		for i, want := range []time.Duration{time.Second, time.Hour, time.Second} {
			assert.InDelta(t, want, states[i].Paused, float64(50*time.Millisecond))
		}
		require.NoError(t, j.Resume(t.Context()))
		states, err = j.States(t.Context())
		require.NoError(t, err)
		for _, s := range states {
			assert.Zero(t, s.Paused)
		}
	})
}

// Of several pauses the one that ends last counts. They are of one key.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Pause(t.Context(), 0, "none"))
		require.NoError(t, l.Pause(t.Context(), -time.Second, "none"))
		require.NoError(t, l.PauseUntil(t.Context(), time.Now().Add(-time.Second), "none"))
		require.NoError(t, l.Pause(t.Context(), 1, "a nanosecond"))
		time.Sleep(100 * time.Millisecond)
		assert.True(t, allowed(t, l, 1))
		require.NoError(t, l.Pause(t.Context(), 5*time.Second, "long"))
		require.NoError(t, l.Pause(t.Context(), 2*time.Second, "short"))
		assert.Equal(t, "long", state(t, l).PauseReason)
		assert.True(t, allowed(t, l.For("a"), 1), "keys have pauses of their own")
		start := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		assert.InDelta(t, 5*time.Second, time.Since(start), float64(110*time.Millisecond))
		require.NoError(t, l.Pause(t.Context(), 1<<62, "for good"))
		assert.Positive(t, state(t, l).Paused)
	})
}

func TestPauseForALongReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(10))
		for i, test := range []struct{ reason, want string }{
			{strings.Repeat("x", 256), strings.Repeat("x", 256)},
			{strings.Repeat("x", 300), strings.Repeat("x", 256)},
			{strings.Repeat("ä", 200), strings.Repeat("ä", 128)},
			{"x" + strings.Repeat("ä", 200), "x" + strings.Repeat("ä", 127)},
			{"not\xff text", "not? text"},
		} {
			require.NoError(t, l.Pause(t.Context(), time.Duration(i+1)*time.Second, test.reason))
			assert.Equal(t, test.want, state(t, l).PauseReason)
		}
	})
}

// A pause takes turns back that are not due yet, in all processes.
func TestPauseTakesTurnsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))
		f := newLog()
		for i := range 10 {
			f.wait(t, 1, i, one.Wait)
			f.wait(t, 1, 100+i, two.Wait)
		}
		time.Sleep(450 * time.Millisecond)
		require.NoError(t, one.Pause(t.Context(), 3*time.Second, ""))
		paused := f.now()
		f.all()
		assert.Len(t, f.between(paused+way+time.Millisecond, paused+2990*time.Millisecond), 0)
		rest := f.between(paused+2990*time.Millisecond, time.Hour)
		assert.Len(t, rest, 15)
		assert.LessOrEqual(t, rest[14].after, paused+3*time.Second+1600*time.Millisecond)
	})
}

// A burst below what a call costs refuses it.
// Names and keys may have spaces: those who wait hear of a pause all the same.
func TestPauseOfANameWithSpaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		config := reserve.Config{Name: "the api", Group: "all of it", Limit: reserve.PerSecond(10)}
		one, two := b.with(config).For("a tenant"), b.with(config).For("a tenant")
		f := newLog()
		for who := range 5 {
			f.wait(t, 1, who, one.Wait)
		}
		time.Sleep(50 * time.Millisecond) // some have a turn by now
		require.NoError(t, two.Pause(t.Context(), 5*time.Second, "stop"))
		assert.Len(t, f.all(), 5)
		assert.Len(t, f.between(100*time.Millisecond, 5*time.Second), 0)
	})
}

func TestSetLimitOfASmallerBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(10).Burst(10))
		require.NoError(t, l.SetLimit(t.Context(), reserve.PerSecond(10).Burst(2), 0))
		err := l.WaitN(t.Context(), 3)
		require.ErrorIs(t, err, reserve.ErrExceedsBurst)
		require.ErrorIs(t, err, reserve.ErrInvalid)
		require.NoError(t, l.WaitN(t.Context(), 2))
		require.NoError(t, l.SetLimit(t.Context(), reserve.PerSecond(10).Burst(20), 0))
		require.ErrorIs(t, l.WaitN(t.Context(), 11), reserve.ErrExceedsBurst, "its own limit bounds the cost")
		require.NoError(t, l.WaitN(t.Context(), 10))
	})
}

func TestSetLimitWrongly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10))
		quota := b.limiter(reserve.Quota(5, reserve.CalendarDay))
		berlin, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		for says, err := range map[string]error{
			"Limit: is not set":   l.SetLimit(t.Context(), reserve.Limit{}, 0),
			"got 0":               l.SetLimit(t.Context(), reserve.PerSecond(0), 0),
			"got -1s":             l.SetLimit(t.Context(), reserve.PerSecond(1), -time.Second),
			"of kind paced":       l.SetLimit(t.Context(), reserve.Quota(5, reserve.CalendarDay), 0),
			"warming up":          l.SetLimit(t.Context(), reserve.PerSecond(1).WarmUp(time.Second), 0),
			`got "5/hour quota"`:  quota.SetLimit(t.Context(), reserve.Quota(5, reserve.CalendarHour), 0),
			"in Europe/Berlin":    quota.SetLimit(t.Context(), reserve.Quota(5, reserve.CalendarDay).In(berlin), 0),
			"key: must be from 1": l.For("").SetLimit(t.Context(), reserve.PerSecond(1), 0),
			//lint:ignore SA1012 that is what is tested
			"ctx: must not be nil":  l.SetLimit(nil, reserve.PerSecond(1), 0), //nolint:staticcheck // that is what is tested
			"key: must be from 1 t": l.For("").ResetLimit(t.Context()),
		} {
			require.ErrorIs(t, err, reserve.ErrInvalid)
			assert.ErrorContains(t, err, says)
		}
		assert.Zero(t, b.asks.Load(), "nothing was asked")
		require.NoError(t, l.SetLimit(t.Context(), reserve.PerSecond(1), 1), "a nanosecond is not for good")
		time.Sleep(time.Second)
		assert.InDelta(t, 10, state(t, l).Rate, 1e-9)
		require.NoError(t, quota.SetLimit(t.Context(), reserve.Quota(7, reserve.CalendarDay).Margin(time.Second), 1<<62))
		assert.Equal(t, 7, state(t, quota).Burst)
	})
}

// A pause of which only the reply was lost is made again.
func TestPauseIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10))
		require.NoError(t, l.Wait(t.Context()))
		b.cut.Store(true)
		time.AfterFunc(20*time.Millisecond, func() { b.cut.Store(false) })
		require.NoError(t, l.Pause(t.Context(), 5*time.Second, ""))
		_, err := l.State(t.Context())
		require.NoError(t, err)
	})
}

// A pause holds a limit that was idle back until its end, and not for an interval more.
func TestPauseOfAnIdleLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerHour(1))
		require.NoError(t, l.Pause(t.Context(), time.Second, ""))
		start := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		assert.InDelta(t, time.Second, time.Since(start), float64(50*time.Millisecond))
	})
}

// A pause goes on where Redis has lost it and a process remembers it; to resume ends it for good.
func TestResumeEndsAPauseThatRedisLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two, idle := b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10)), b.limiter(reserve.PerSecond(10))
		for _, l := range []*reserve.Limiter{one, two, idle} {
			require.NoError(t, l.Wait(t.Context()))
		}
		require.NoError(t, one.Pause(t.Context(), time.Hour, "broken"))
		time.Sleep(time.Second)
		require.False(t, allowed(t, idle, 1), "so it knows of the pause")
		var all sync.WaitGroup
		var made atomic.Int64
		wait := func(l *reserve.Limiter) {
			all.Go(func() {
				assert.NoError(t, l.Wait(t.Context()))
				made.Add(1)
			})
		}
		wait(one)
		wait(two)
		time.Sleep(time.Second)
		b.mini.FlushAll()
		wait(one)
		wait(two)
		time.Sleep(10 * time.Second)
		assert.Zero(t, made.Load(), "it is paused")
		s := state(t, b.limiter(reserve.PerSecond(10)))
		assert.InDelta(t, time.Hour-12*time.Second, s.Paused, float64(time.Second))
		assert.Contains(t, s.PauseReason, "lost its data")

		require.NoError(t, two.Resume(t.Context()))
		start := time.Now()
		all.Wait()
		assert.Less(t, time.Since(start), 2*time.Second)
		for _, l := range []*reserve.Limiter{idle, one, two} {
			require.NoError(t, l.Wait(t.Context()))
		}
		assert.Less(t, time.Since(start), 2*time.Second)
		assert.Zero(t, state(t, one).Paused)
	})
}
