package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// Callers whose deadline is too short for the queue try again after 50 ms, thousands of times: their
// process answers most of them by itself, and all of the limit is used.
func TestDeadlineStorm(t *testing.T) {
	one := func(limit reserve.Limit) func(*bubble, int) func(context.Context) error {
		return func(b *bubble, _ int) func(context.Context) error { return b.limiter(limit).Wait }
	}
	for name, storm := range map[string]struct {
		wait func(b *bubble, process int) func(context.Context) error
	}{
		"paced":   {one(reserve.PerSecond(2))},
		"rolling": {one(reserve.Rolling(2, time.Second))},
		"key": {func(b *bubble, _ int) func(context.Context) error {
			return b.limiter(reserve.PerSecond(2)).For("a").Wait
		}},
		"flow": {func(b *bubble, p int) func(context.Context) error {
			return b.limiter(reserve.PerSecond(2)).Flow(fmt.Sprint(p)).Wait
		}},
		"joint": {func(b *bubble, _ int) func(context.Context) error {
			limits := b.group(reserve.PerSecond(2), reserve.PerSecond(5))
			return func(ctx context.Context) error { return joint(b, limits...).Wait(ctx) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				ctx, cancel := context.WithCancel(t.Context())
				var turns, misses, late atomic.Int64
				var busy sync.WaitGroup
				for p := range 3 {
					wait := storm.wait(b, p)
					for range 8 { // at most 16 fit into the queue
						busy.Go(func() {
							for ctx.Err() == nil {
								bounded, end := context.WithTimeout(ctx, 8*time.Second)
								if err := wait(bounded); err == nil {
									turns.Add(1)
								} else if ctx.Err() == nil {
									misses.Add(1)
									if !errors.Is(err, reserve.ErrWouldMissDeadline) || !errors.Is(err, context.DeadlineExceeded) {
										late.Add(1)
									}
									time.Sleep(50 * time.Millisecond)
								}
								end()
							}
						})
					}
				}
				time.Sleep(10250 * time.Millisecond) // between turns
				before, missed, asked, left := turns.Load(), misses.Load(), b.asks.Load(), b.left.Load()
				time.Sleep(10 * time.Second)
				used := float64(turns.Load()-before) / 10 / 2
				n, commands, leaves := misses.Load()-missed, b.asks.Load()-asked, b.left.Load()-left
				cancel()
				busy.Wait()
				t.Logf("%d misses, %d commands, %.2f used, %d leave", n, commands, used, leaves)
				if name != "flow" { // where later calls may stand before those that wait
					assert.LessOrEqual(t, leaves, int64(4), "calls that have entered in vain, of about 20")
				}
				assert.GreaterOrEqual(t, used, 0.97)
				assert.Greater(t, n, int64(1000))
				assert.Less(t, commands, n/3, "commands for %d misses, those for turns and heartbeats included", n)
				assert.Zero(t, late.Load(), "calls that have entered, and were told later")
			})
		})
	}
}

// Who is told when to try again has a turn in time then, if nobody comes before.
func TestMissedDeadlineSaysWhenToTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		f := newLog()
		for i := range 10 {
			f.wait(t, 1, i, one.Wait)
		}
		time.Sleep(100 * time.Millisecond)
		attempt := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			return two.Wait(ctx)
		}
		for range 5 { // also from a forecast that is some time old
			err := attempt()
			require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var e *reserve.Error
			require.ErrorAs(t, err, &e)
			assert.InDelta(t, e.Wait-e.Left, e.RetryAfter, float64(5*time.Millisecond))
			assert.InDelta(t, 10*time.Second-f.now(), e.Wait, float64(100*time.Millisecond))
			assert.ErrorContains(t, err, ": try again in ")
			time.Sleep(e.RetryAfter / 10)
		}
		var e *reserve.Error
		require.ErrorAs(t, attempt(), &e)
		time.Sleep(e.RetryAfter)
		require.NoError(t, attempt())
		f.all()
	})
}

// A queue that becomes shorter is noticed: no call is refused for long that could have its turn.
func TestRefusedCallsNoticeThatTurnsComeSooner(t *testing.T) {
	for name, sooner := range map[string]func(l *reserve.Limiter, cancel func()){
		"those before it leave": func(_ *reserve.Limiter, cancel func()) { cancel() },
		"a pause ends":          func(l *reserve.Limiter, cancel func()) { cancel(); _ = l.Resume(context.Background()) },
		"a faster limit":        func(l *reserve.Limiter, _ func()) { _ = l.SetLimit(context.Background(), reserve.PerSecond(100), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				one, two := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if name == "a pause ends" {
					require.NoError(t, one.Pause(ctx, time.Minute, ""))
				}
				var busy sync.WaitGroup
				for range 30 {
					busy.Go(func() { _ = one.Wait(ctx) })
				}
				time.Sleep(time.Second)
				attempt := func() error {
					bounded, cancel := context.WithTimeout(t.Context(), 4*time.Second)
					defer cancel()
					return two.Wait(bounded)
				}
				for range 5 {
					require.ErrorIs(t, attempt(), reserve.ErrWouldMissDeadline)
					time.Sleep(100 * time.Millisecond)
				}
				sooner(one, cancel)
				start := time.Now()
				for attempt() != nil {
					time.Sleep(50 * time.Millisecond)
				}
				assert.Less(t, time.Since(start), 1700*time.Millisecond) // half a second, and the turn
				cancel()
				busy.Wait()
			})
		})
	}
}
