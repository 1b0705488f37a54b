package reserve_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// Five calls give up; the sixth does not wait for them.
func TestCancelledWaitsCostNothing(t *testing.T) {
	for _, processes := range []int{1, 6} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			limiters := make([]*reserve.Limiter, processes)
			for i := range limiters {
				limiters[i] = b.limiter(reserve.PerSecond(1))
			}
			require.NoError(t, limiters[0].Wait(t.Context())) // takes what is stored

			ctx, cancel := context.WithCancel(t.Context())
			var five sync.WaitGroup
			for i := range 5 {
				five.Go(func() { require.ErrorIs(t, limiters[i%processes].Wait(ctx), context.Canceled) })
			}
			synctest.Wait()
			cancel()
			five.Wait()
			synctest.Wait() // the numbers are back

			start := time.Now()
			require.NoError(t, limiters[processes-1].Wait(t.Context()))
			waited := time.Since(start)
			t.Logf("%d processes: the sixth caller waited %v", processes, waited)
			require.LessOrEqual(t, waited, time.Second)
			require.Greater(t, waited, 900*time.Millisecond)
		})
	}
}

// Of 10,000 waits in 8 processes, which come in waves, a random third gives up
// at a random time before its turn.
func TestCancelledThirdLosesNoPermits(t *testing.T) {
	inParallel(t)
	const waves, wave, rate = 20, 500, 100
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, 1))
		var limiters []*reserve.Limiter
		for range 8 {
			limiters = append(limiters, b.limiter(reserve.PerSecond(rate)))
		}
		random := rand.New(rand.NewPCG(7, 7))
		var cancelled atomic.Int64
		var all sync.WaitGroup
		for range waves {
			for i := range wave {
				ctx, cancel := t.Context(), func() {}
				if random.IntN(3) == 0 {
					ctx, cancel = context.WithCancel(ctx)
					turn := i * int(time.Second/rate) * 2 / 3
					time.AfterFunc(time.Duration(random.IntN(turn+1)).Truncate(time.Millisecond), cancel)
				}
				all.Go(func() {
					defer cancel()
					if limiters[i%len(limiters)].Wait(ctx) == nil {
						api.Judge(1)
					} else {
						cancelled.Add(1)
					}
				})
			}
			// Whole milliseconds: Redis counts microseconds, and this provider allows
			// no jitter at all.
			time.Sleep((wave * time.Second / rate * 2 / 3).Truncate(time.Millisecond))
		}
		all.Wait()
		s := api.Summary()
		elapsed := s.Last.Sub(s.First).Seconds()
		lost := (elapsed*rate + 1 - float64(s.Requests)) / float64(s.Requests)
		t.Logf("%d waits: %d cancelled, %d called, %d refused, %.2f %% of the permits lost",
			waves*wave, cancelled.Load(), s.Requests, s.Refused, 100*lost)
		require.Zero(t, s.Refused)
		require.LessOrEqual(t, lost, 0.02)
		require.InDelta(t, waves*wave/3, cancelled.Load(), waves*wave/20)
	})
}

// A number comes back once, however often it is cancelled.
func TestCancellingTwiceReturnsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1))
		ctx := t.Context()
		for _, keep := range []string{"near", "far"} {
			for range 3 { // the last of the first round is near, of the second far
				_, err := l.Reserve(ctx)
				require.NoError(t, err)
			}
			r, err := l.ReserveAs(ctx, keep, 1)
			require.NoError(t, err)
			next, err := l.Reserve(ctx)
			require.NoError(t, err)

			went, err := l.Cancel(ctx, keep, 1)
			require.NoError(t, err)
			require.True(t, went)
			require.NoError(t, r.Cancel(ctx))
			require.NoError(t, r.Cancel(ctx))
			went, err = l.Cancel(ctx, keep, 1)
			require.NoError(t, err)
			require.False(t, went)

			again, err := l.Reserve(ctx)
			require.NoError(t, err)
			require.Equal(t, r.Number(), again.Number(), "the number was used again")
			tail, err := l.Reserve(ctx)
			require.NoError(t, err)
			require.Equal(t, next.Number()+1, tail.Number(), "and only once")
			require.ErrorIs(t, r.Wait(ctx), reserve.ErrCancelled)
		}
	})
}

// Cancel ends a Wait for the same reservation.
func TestCancelEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Every(time.Minute))
		ctx := t.Context()
		require.NoError(t, l.Wait(ctx))
		r, err := l.Reserve(ctx)
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- r.Wait(ctx) }()
		synctest.Wait()
		require.NoError(t, r.Cancel(ctx))
		require.ErrorIs(t, <-done, reserve.ErrCancelled)
		s, err := l.State(ctx)
		require.NoError(t, err)
		require.Zero(t, s.Waiting)
		require.InDelta(t, time.Minute, s.Wait, float64(time.Second))
	})
}

// A deadline that comes before the turn is answered at once and costs nothing.
func TestDeadlineBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1))
		require.NoError(t, l.Wait(t.Context()))
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			start := time.Now()
			err := l.Wait(ctx)
			cancel()
			require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
			require.Zero(t, time.Since(start))
			var typed *reserve.Error
			require.ErrorAs(t, err, &typed)
			require.InDelta(t, time.Second, typed.Wait, float64(time.Millisecond))
		}
		start := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		require.InDelta(t, time.Second, time.Since(start), float64(time.Millisecond))
	})
}
