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

// A number whose claim is on its way to Redis can be cancelled: the claim, which
// comes later than the cancel could, brings no other number.
func TestCancelledWhileItIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerMinute(20))
		ctx := t.Context()
		r := far(t, l)
		ended := make(chan error, 1)
		go func() { ended <- r.Wait(ctx) }()
		wire.holdClaimOf(r, l)
		require.NoError(t, r.Cancel(ctx))
		require.ErrorIs(t, <-ended, reserve.ErrCancelled)

		time.Sleep(250 * time.Millisecond) // its turn has not come yet
		state, err := l.State(ctx)
		require.NoError(t, err)
		require.Zero(t, state.Waiting)
		require.LessOrEqual(t, state.Line, int64(0), "its turn is for the next")
	})
}

// A call that leaves while its number is being claimed keeps its place, and nobody
// holds its turn.
func TestLeftWhileItIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerMinute(20))
		ctx := t.Context()
		r := far(t, l)
		short, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- r.Wait(short) }()
		wire.holdClaimOf(r, l)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		stays, err := l.Leave(ctx, r.ID(), 1)
		require.NoError(t, err)
		require.True(t, stays)

		time.Sleep(time.Second)
		state, err := l.State(ctx)
		require.NoError(t, err)
		require.Equal(t, int64(1), state.Waiting)
	})
}

// Who waits for a claim that is on its way need not do so for longer than its
// context allows.
func TestCancelDoesNotOutlastItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerMinute(20))
		r := far(t, l)
		ended := make(chan error, 1)
		go func() { ended <- r.Wait(t.Context()) }()
		wire.holdClaimOf(r, l)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, r.Cancel(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, <-ended, reserve.ErrCancelled)
		require.NoError(t, r.Cancel(t.Context()), "it may be repeated")
		state, err := l.State(t.Context())
		require.NoError(t, err)
		require.Zero(t, state.Waiting)
	})
}

// A turn that comes at the very moment at which it is cancelled is used or goes
// back, never both.
func TestCancelledAsItsTurnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, many = 20, 300
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(rate))
		ctx := t.Context()
		api := provider.New(provider.TokenBucket(rate, 1))
		used := 0
		for range many {
			r, err := l.Reserve(ctx)
			require.NoError(t, err)
			done := make(chan struct{})
			time.AfterFunc(r.Delay(), func() {
				assert.NoError(t, r.Cancel(ctx))
				close(done)
			})
			if r.Wait(ctx) == nil {
				api.Judge(1)
				used++
			}
			<-done
		}
		t.Logf("%d of %d were used", used, many)
		require.Zero(t, api.Summary().Refused)
	})
}

// far is a reservation whose turn comes in 3 s, and has to be claimed before.
func far(t *testing.T, l *reserve.Limiter) *reserve.Reservation {
	t.Helper()
	require.NoError(t, l.Wait(t.Context()))
	r, err := l.Reserve(t.Context())
	require.NoError(t, err)
	require.False(t, r.Final())
	return r
}

// holdClaimOf returns when the claim of a reservation that waits is on its way to
// Redis, where it stays for a while. Other calls overtake it.
func (w *wire) holdClaimOf(r *reserve.Reservation, l *reserve.Limiter) {
	const moment = 50 * time.Millisecond
	time.Sleep(r.Delay() - l.Lead() - moment)
	w.request.Store(int64(4 * moment))
	time.Sleep(2 * moment)
	w.request.Store(0)
}
