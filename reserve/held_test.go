package reserve_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

func held(t testing.TB, l *reserve.Limiter, n int) *reserve.Reservation {
	t.Helper()
	r, err := l.ReserveN(context.Background(), n)
	require.NoError(t, err)
	return r
}

// A reservation has a forecast, then a turn, and is used once.
func TestReserveOfEachKind(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		l := b.limiter(k.limit)
		for range k.burst {
			r := held(t, l, 1)
			assert.True(t, r.Granted())
			assert.LessOrEqual(t, r.Delay(), 10*time.Millisecond)
			require.NoError(t, r.Wait(t.Context()))
			assert.Nil(t, r.HeldBy())
		}
		r := held(t, l, 1)
		assert.Positive(t, r.Delay())
		assert.Same(t, l, r.HeldBy())
		assert.False(t, r.Lapsed())
		assert.False(t, r.Booked())
		assert.Empty(t, r.ID())
		forecast := r.Due()
		require.NoError(t, r.Wait(t.Context()))
		assert.InDelta(t, 0, time.Since(forecast), float64(100*time.Millisecond))
		assert.True(t, r.Granted())
		assert.Zero(t, r.Delay())

		err := r.Wait(t.Context())
		require.ErrorIs(t, err, reserve.ErrInvalid)
		assert.ErrorContains(t, err, "used up")
		require.NoError(t, r.Cancel(t.Context()), "nothing is left to cancel")
		require.ErrorIs(t, r.PutBack(t.Context()), reserve.ErrInvalid)
		err = r.Settle(t.Context(), 1)
		require.ErrorIs(t, err, reserve.ErrInvalid)
		assert.ErrorContains(t, err, `Config.Settles: is not set for "api"`)
	})
}

// Reservations have their turns in the order in which they were made, also among calls that
// wait. The place of one that is cancelled is for the next one of its process.
func TestReservationsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		one, two := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		require.NoError(t, one.Wait(t.Context()))
		f := newLog()
		var rs []*reserve.Reservation
		for i := range 6 {
			r := held(t, []*reserve.Limiter{one, two}[i%2], 1)
			rs = append(rs, r)
			assert.InDelta(t, time.Duration(i+1)*time.Second, r.Delay(), float64(100*time.Millisecond))
		}
		require.NoError(t, rs[1].Cancel(t.Context()))
		require.NoError(t, rs[1].Cancel(t.Context()))
		require.ErrorIs(t, rs[1].Wait(t.Context()), reserve.ErrCancelled)
		require.ErrorIs(t, rs[1].PutBack(t.Context()), reserve.ErrCancelled)
		for i, r := range rs {
			if i != 1 {
				f.wait(t, 1, i, r.Wait)
			}
		}
		f.wait(t, 1, 9, one.Wait)
		for i, c := range f.all() {
			assert.Equal(t, []int{0, 3, 2, 5, 4, 9}[i], c.who)
			assert.InDelta(t, time.Duration(i+1)*time.Second, c.after, float64(150*time.Millisecond))
		}
	})
}

// Who reserves as another one of its process has just cancelled has the place of that one, and
// hears at once when its turn is.
func TestReserveRightAfterACancel(t *testing.T) {
	for _, limit := range []reserve.Limit{
		reserve.Every(time.Minute), reserve.Every(time.Minute).WarmUp(time.Minute),
		reserve.Quota(1, reserve.CalendarMinute), reserve.Rolling(1, time.Minute),
	} {
		t.Run(limit.Kind().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newBubble(t).limiter(limit)
				require.NoError(t, l.Wait(t.Context()))
				for range 5 {
					start := time.Now()
					r := held(t, l, 1)
					assert.LessOrEqual(t, time.Since(start), 20*time.Millisecond, "some round trips")
					assert.Positive(t, r.Delay())
					require.NoError(t, r.Cancel(t.Context()))
				}
			})
		})
	}
}

// If the context of a Wait ends, the place is kept; a deadline does not matter.
func TestReservationIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.Every(10 * time.Second))
		require.NoError(t, l.Wait(t.Context()))
		start := time.Now()
		r := held(t, l, 1)
		behind := held(t, l, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, r.Wait(ctx), context.DeadlineExceeded)
		assert.InDelta(t, 3*time.Second, time.Since(start), float64(20*time.Millisecond))
		require.NoError(t, r.Wait(t.Context()))
		assert.InDelta(t, 10*time.Second, time.Since(start), float64(50*time.Millisecond))
		require.NoError(t, behind.Wait(t.Context()))
		assert.InDelta(t, 20*time.Second, time.Since(start), float64(100*time.Millisecond))
	})
}

// Cancel ends a Wait; two Waits at once are wrong.
func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.Every(10 * time.Second))
		require.NoError(t, l.Wait(t.Context()))
		r := held(t, l, 1)
		ended := make(chan error)
		go func() { ended <- r.Wait(context.Background()) }()
		synctest.Wait()
		err := r.Wait(t.Context())
		require.ErrorIs(t, err, reserve.ErrInvalid)
		assert.ErrorContains(t, err, "waited for already")
		go func() { _ = r.Cancel(context.Background()) }()
		require.ErrorIs(t, <-ended, reserve.ErrCancelled)
		time.Sleep(time.Second)
		assert.Zero(t, state(t, l).Waiting)
	})
}

// A turn that was given and cancelled is there for others.
func TestCancelOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.Every(10*time.Second)), b.limiter(reserve.Every(10*time.Second))
		r := held(t, l, 1)
		require.True(t, r.Granted())
		assert.False(t, allowed(t, other, 1))
		require.NoError(t, r.Cancel(t.Context()))
		time.Sleep(100 * time.Millisecond)
		assert.True(t, allowed(t, other, 1))
	})
}

// A turn that nobody used in time lapses; Wait asks for another one.
func TestReservationLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(1))
		r := held(t, l, 1)
		require.True(t, r.Granted())
		require.False(t, r.Lapsed())
		time.Sleep(500 * time.Millisecond)
		require.True(t, r.Lapsed())
		time.Sleep(time.Hour)
		require.True(t, r.Lapsed())
		start := time.Now()
		require.NoError(t, r.Wait(t.Context()))
		assert.LessOrEqual(t, time.Since(start), 50*time.Millisecond)
		assert.False(t, allowed(t, l, 1), "it has a turn of its own")
	})
}

// Close ends a Wait; Cancel works after it.
func TestCloseOfAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.Every(10*time.Second)), b.limiter(reserve.Every(10*time.Second))
		require.NoError(t, l.Wait(t.Context()))
		r, waited := held(t, l, 1), held(t, l, 1)
		ended := make(chan error)
		go func() { ended <- waited.Wait(context.Background()) }()
		time.Sleep(time.Second)
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-ended, reserve.ErrClosed)
		require.ErrorIs(t, r.Wait(t.Context()), reserve.ErrClosed)
		require.NoError(t, r.Cancel(t.Context()))
		require.NoError(t, waited.Cancel(t.Context()))
		assert.Zero(t, state(t, other).Waiting)
	})
}

// What a call used less is there for others; what it used more is not.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		config := reserve.Config{Limit: reserve.PerSecond(10).Burst(100), Settles: true}
		l := b.with(config)
		require.NoError(t, l.Wait(t.Context())) // tells Redis that costs are settled
		for _, c := range []struct {
			cost, used int
			wait       time.Duration // of another call of 100
		}{{50, 10, 1 * time.Second}, {10, 40, 4 * time.Second}, {10, -1, 1 * time.Second}, {30, 0, 0}} {
			time.Sleep(time.Minute)
			r := held(t, l, c.cost)
			require.NoError(t, r.Wait(t.Context()))
			require.ErrorIs(t, r.Settle(t.Context()), reserve.ErrInvalid)
			require.ErrorIs(t, r.Settle(t.Context(), 1, 2), reserve.ErrInvalid)
			require.ErrorIs(t, r.Settle(t.Context(), 1<<40), reserve.ErrInvalid)
			require.NoError(t, r.Settle(t.Context(), c.used))
			require.NoError(t, r.Settle(t.Context(), c.used), "the same once more changes nothing")
			start := time.Now()
			require.NoError(t, l.WaitN(t.Context(), 100))
			assert.InDelta(t, c.wait, time.Since(start), float64(30*time.Millisecond), "cost %d, used %d", c.cost, c.used)
		}
		r := held(t, l, 50)
		err := r.Settle(t.Context(), 1)
		require.ErrorIs(t, err, reserve.ErrInvalid)
		assert.ErrorContains(t, err, "has not had its turn")
	})
}

// A turn that was given and has come counts as used, also if nobody waited for it.
func TestSettleOfATurnThatWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).with(reserve.Config{Limit: reserve.PerSecond(10).Burst(100), Settles: true})
		r := held(t, l, 50)
		require.True(t, r.Granted())
		time.Sleep(r.Delay())
		time.Sleep(time.Second) // the call
		require.NoError(t, r.Settle(t.Context(), 40))
		require.ErrorIs(t, r.Wait(t.Context()), reserve.ErrInvalid)
	})
}

// While Redis is away reservations have turns as the policy says.
func TestReserveWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Limit: reserve.PerSecond(10), Settles: true})
		require.NoError(t, l.Wait(t.Context()))
		b.mini.SetError(loading)
		for range 5 {
			r := held(t, l, 1)
			require.NoError(t, r.Wait(t.Context()))
			require.NoError(t, r.Settle(t.Context(), 1), "Redis knows nothing of it")
		}
	})
}

// A Reservation may be looked at, waited for and cancelled at the same time.
func TestReservationIsSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newBubble(t).limiter(reserve.PerSecond(50))
		var busy sync.WaitGroup
		for range 40 {
			r := held(t, l, 1)
			busy.Go(func() { _ = r.Wait(context.Background()) })
			busy.Go(func() { _ = r.Cancel(context.Background()) })
			busy.Go(func() { _ = r.Cancel(context.Background()) })
			busy.Go(func() {
				for range 10 {
					_, _, _, _, _ = r.Due(), r.Granted(), r.Lapsed(), r.Booked(), r.HeldBy()
					time.Sleep(time.Millisecond)
				}
			})
		}
		busy.Wait()
		time.Sleep(time.Second)
		assert.Zero(t, state(t, l).Waiting)
	})
}
