package reserve_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// A call whose reply was lost is asked again and finds its number, whether it is
// due now, near or far, and whether Redis knows it by an ID or not.
func TestLostReplyIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(1))
		ctx := t.Context()
		start := time.Now()
		for i, id := range []string{"now", "near", "far"} {
			wire.lose.Store(2)
			r, err := l.ReserveAs(ctx, id, 1)
			require.NoError(t, err)
			require.Equal(t, int64(i+1), r.Number(), id)
			if i > 0 {
				require.WithinDuration(t, start.Add(time.Duration(i)*time.Second), r.Due(), 250*time.Millisecond, "the first was late")
			}
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { require.NoError(t, l.Wait(ctx)) })
		}
		wire.lose.Store(2)
		all.Wait()
		require.Zero(t, max(0, wire.lose.Load()))
		require.WithinDuration(t, start.Add(6*time.Second), time.Now(), 250*time.Millisecond)
		s, err := l.State(ctx)
		require.NoError(t, err)
		require.Equal(t, int64(1), s.Waiting, "the one that did not come; somebody else used its turn")
		require.InDelta(t, 2*time.Second, s.Wait, float64(250*time.Millisecond))
	})
}

// A reply that is lost and asked for a little later, after the turn has come,
// does not cost the turn: the line moves back by the time that passed.
func TestLostReplyIsFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.Every(time.Hour))
		ctx := t.Context()
		first, err := l.ReserveAs(ctx, "id", 1)
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		again, err := l.ReserveAs(ctx, "id", 1)
		require.NoError(t, err)
		require.Equal(t, first.Number(), again.Number())
		require.Zero(t, again.Delay())
		claimed, err := l.Claim(ctx, "id", 1)
		require.NoError(t, err)
		require.Equal(t, first.Number(), claimed.Number())
		next, err := l.Reserve(ctx)
		require.NoError(t, err)
		require.Equal(t, time.Hour, next.Delay())

		// Long after, the turn has passed, and the ID gets a new one.
		time.Sleep(time.Minute)
		late, err := l.ReserveAs(ctx, "id", 1)
		require.NoError(t, err)
		require.Equal(t, next.Number()+1, late.Number())
	})
}

// standInLine lets calls wait, one behind the other. When all are done, the result
// holds the order in which they had their turns.
func standInLine(t *testing.T, l *reserve.Limiter, calls int, all *sync.WaitGroup) *[]int {
	var mu sync.Mutex
	var order []int
	for i := range calls {
		all.Go(func() {
			require.NoError(t, l.Wait(t.Context()))
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
		})
		synctest.Wait()
	}
	return &order
}

// While claims fail, calls keep their place; afterwards they go on in order.
func TestWaitersOutlastAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1))
		require.NoError(t, l.Wait(t.Context()))
		start := time.Now()
		var all sync.WaitGroup
		order := standInLine(t, l, 8, &all)
		time.Sleep(2100 * time.Millisecond)
		b.redis.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(3 * time.Second)
		b.redis.SetError("")
		all.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, *order)
		require.LessOrEqual(t, time.Since(start), 13*time.Second)
	})
}

// With Redis gone for good, nobody waits forever.
func TestNobodyWaitsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1))
		require.NoError(t, l.Wait(t.Context()))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := l.Wait(context.Background()); err != nil {
					require.ErrorIs(t, err, reserve.ErrUnavailable)
				}
			})
		}
		synctest.Wait()
		b.redis.SetError("LOADING Redis is loading the dataset in memory")
		start := time.Now()
		all.Wait()
		require.LessOrEqual(t, time.Since(start), 20*time.Second)
		b.redis.SetError("")
	})
}

// Close ends every wait, gives the numbers back, and refuses new calls.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, other := b.limiter(reserve.PerSecond(1)), b.limiter(reserve.PerSecond(1))
		require.NoError(t, l.Wait(t.Context()))
		kept, err := l.Reserve(t.Context())
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { require.ErrorIs(t, l.Wait(t.Context()), reserve.ErrClosed) })
		}
		synctest.Wait()
		require.NoError(t, l.Close())
		all.Wait()
		require.ErrorIs(t, l.Wait(t.Context()), reserve.ErrClosed)
		require.ErrorIs(t, l.For("key").Wait(t.Context()), reserve.ErrClosed)
		require.NoError(t, l.Close())
		require.NoError(t, kept.Cancel(t.Context()), "a reservation can still be given back")
		s, err := other.State(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Waiting)
		require.LessOrEqual(t, s.Wait, time.Second)
	})
}
