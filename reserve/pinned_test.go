package reserve_test

import (
	"context"
	"errors"
	"fmt"
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

// Reservations that wait in one process are not held up by numbers that were
// left lying before them, all get their turns, and only one of them looks.
func TestReservationsPassNumbersLeftLying(t *testing.T) {
	inParallel(t)
	const rate, left, many = 50, 50, 1000
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, 1))
		dead := b.limiter(reserve.PerSecond(rate))
		alive, wire := b.wired(t, reserve.PerSecond(rate))
		ctx := t.Context()
		start := time.Now()
		for i := range rate + 1 + left { // those of the first second are fixed: nobody can take them over
			r, err := dead.ReserveAs(ctx, fmt.Sprint("left-", i), 1)
			require.NoError(t, err)
			require.Equal(t, i <= rate, r.Final())
		}
		reservations := make([]*reserve.Reservation, many)
		for i := range reservations {
			r, err := alive.Reserve(ctx)
			require.NoError(t, err)
			reservations[i] = r
		}
		wire.scripts.Store(0)
		var all sync.WaitGroup
		var last atomic.Int64 // place of the call before
		var worst atomic.Int64
		for i, r := range reservations {
			all.Go(func() {
				require.NoError(t, r.Wait(ctx))
				api.Judge(1)
				worst.Store(max(worst.Load(), last.Add(1)-1-int64(i), int64(i)-last.Load()+1))
			})
		}
		all.Wait()
		s := api.Summary()
		lost := int(s.Last.Sub(start)*rate/time.Second) - rate - many
		t.Logf("%d calls, %d refused, %d turns lost, %d script calls, at most %d places from its own",
			s.Requests, s.Refused, lost, wire.scripts.Load(), worst.Load())
		require.Equal(t, many, s.Requests)
		require.Zero(t, s.Refused)
		require.LessOrEqual(t, lost, 5, "of the %d left lying", left)
		require.Less(t, wire.scripts.Load(), int64(many/2), "one looks for all")
		require.LessOrEqual(t, worst.Load(), int64(rate), "nobody starves")
	})
}

// A Wait that ends keeps its number, whenever it ends: also while the number is
// being claimed.
func TestAReservationCanBeWaitedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(1))
		ctx := t.Context()
		start := time.Now()
		require.NoError(t, l.Wait(ctx))
		wire.request.Store(int64(200 * time.Millisecond))
		r, err := l.ReserveAs(ctx, "near", 1)
		require.NoError(t, err)
		require.True(t, r.Final())
		far, err := l.ReserveAs(ctx, "far", 1)
		require.NoError(t, err)
		require.False(t, far.Final())
		number := far.Number()
		for _, until := range []time.Duration{800, 1400, 1600, 1800} { // it is claimed from 1.5 s on
			short, cancel := context.WithDeadline(ctx, start.Add(until*time.Millisecond))
			require.ErrorIs(t, far.Wait(short), context.DeadlineExceeded)
			cancel()
		}
		require.NoError(t, far.Wait(ctx))
		require.Equal(t, number, far.Number())
		require.GreaterOrEqual(t, time.Since(start), 2*time.Second)
		require.LessOrEqual(t, time.Since(start), 2200*time.Millisecond, "late by one trip at most")
	})
}

// The same after a Wait that failed because Redis was away for long.
func TestAReservationOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.enduring(reserve.PerSecond(1), reserve.PolicyFail)
		ctx := t.Context()
		require.NoError(t, l.Wait(ctx))
		_, err := l.Reserve(ctx)
		require.NoError(t, err)
		r, err := l.Reserve(ctx)
		require.NoError(t, err)
		b.redis.SetError("LOADING Redis is loading the dataset in memory")
		require.ErrorIs(t, r.Wait(ctx), reserve.ErrUnavailable)
		b.redis.SetError("")
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, r.Wait(ctx))
		require.LessOrEqual(t, time.Since(start), time.Second)
	})
}

// Of many reservations that wait, each ends and begins its Waits at random
// moments, on a slow way to Redis. Every number is used once, or cancelled.
func TestWaitsEndAtRandom(t *testing.T) {
	const rate, many = 20, 200
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			api := provider.New(provider.TokenBucket(rate, 2)) // 30 ms of jitter
			var limiters []*reserve.Limiter
			for range 2 {
				l, wire := b.wired(t, reserve.PerSecond(rate))
				wire.delay.Store(int64(30 * time.Millisecond))
				limiters = append(limiters, l)
			}
			ctx := t.Context()
			var all sync.WaitGroup
			var used, given, cut atomic.Int64
			for i := range many {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				l := limiters[i%len(limiters)]
				all.Go(func() {
					r, err := l.Reserve(ctx)
					require.NoError(t, err)
					for {
						short, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(4000))*time.Millisecond)
						if random.IntN(20) == 0 {
							time.AfterFunc(time.Duration(random.IntN(4000))*time.Millisecond, func() { _ = r.Cancel(ctx) })
						}
						err := r.Wait(short)
						cancel()
						switch {
						case err == nil:
							api.Judge(1)
							used.Add(1)
							return
						case errors.Is(err, context.DeadlineExceeded):
							cut.Add(1)
						default:
							require.ErrorIs(t, err, reserve.ErrCancelled)
							given.Add(1)
							return
						}
					}
				})
			}
			all.Wait()
			time.Sleep(5 * time.Second) // the last cancels
			s := api.Summary()
			t.Logf("seed %d: %d calls, %d refused, %d cancelled, %d waits cut short, %v for all",
				seed, s.Requests, s.Refused, given.Load(), cut.Load(), s.Last.Sub(s.First))
			require.Zero(t, s.Refused)
			require.Equal(t, int64(many), used.Load()+given.Load())
			require.Positive(t, cut.Load())
			require.Positive(t, given.Load())
			require.LessOrEqual(t, s.Last.Sub(s.First), (many+2*rate)*time.Second/rate, "a few turns are lost at most")
			state, err := limiters[0].State(ctx)
			require.NoError(t, err)
			require.Zero(t, state.Waiting)
		})
	}
}

// Who waits with a number of its own costs few script calls, however many they are.
func TestReservationsShareTheirScriptCalls(t *testing.T) {
	const rate, many, length = 50, 1000, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, 1))
		l, wire := b.wired(t, reserve.PerSecond(rate))
		ctx, cancel := context.WithTimeout(t.Context(), length+time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		for range many {
			r, err := l.Reserve(ctx)
			require.NoError(t, err)
			all.Go(func() {
				if r.Wait(ctx) == nil {
					api.Judge(1)
				}
			})
		}
		synctest.Wait()
		wire.scripts.Store(0)
		all.Wait()
		s := api.Summary()
		t.Logf("%d reservations, %v: %d turns, %d script calls", many, length, s.Requests, wire.scripts.Load())
		require.Equal(t, 1+rate*int(length/time.Second), s.Requests)
		require.Zero(t, s.Refused)
		// A few claims in a second are for all of them.
		require.LessOrEqual(t, wire.scripts.Load(), int64(80))
	})
}

// A call that keeps its number because of its deadline gives it back when it ends,
// whenever that is: also while the number is being claimed.
func TestAPinnedCallGivesItsNumberBack(t *testing.T) {
	for _, ends := range []time.Duration{200, 2100, 2550, 2650} { // it is claimed from 2.5 s on
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			l, wire := b.wired(t, reserve.PerSecond(1))
			other := b.limiter(reserve.PerSecond(1))
			ctx := t.Context()
			require.NoError(t, l.Wait(ctx))
			var numbers []*reserve.Reservation
			for range 5 {
				r, err := other.Reserve(ctx)
				require.NoError(t, err)
				numbers = append(numbers, r)
			}
			patient := make(chan error, 1)
			go func() { patient <- l.Wait(ctx) }()
			synctest.Wait()
			require.NoError(t, numbers[2].Cancel(ctx)) // due in 3 s
			hurry, cancel := context.WithTimeout(ctx, 3500*time.Millisecond)
			defer cancel()
			short := make(chan error, 1)
			go func() { short <- l.Wait(hurry) }() // takes it, and keeps it
			synctest.Wait()
			wire.request.Store(int64(100 * time.Millisecond))
			time.Sleep(ends * time.Millisecond)
			cancel()
			require.ErrorIs(t, <-short, context.Canceled)
			time.Sleep(210 * time.Millisecond) // it is back

			again, err := other.Reserve(ctx)
			require.NoError(t, err)
			require.Equal(t, numbers[2].Number(), again.Number())
			require.NoError(t, <-patient)
		})
	}
}
