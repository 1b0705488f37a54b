package reserve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// even asserts that calls are an interval apart from a moment on.
func even(t *testing.T, calls []fleetCall, from, interval time.Duration) {
	t.Helper()
	for i, c := range calls {
		assert.InDelta(t, from+time.Duration(i)*interval, c.at, float64(2*time.Millisecond), "call %d", i)
	}
}

func TestSetLimitMovesEverybodyInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		processes := fleet(newHearingBubble(t), 4, reserve.PerSecond(100))
		var f fleetCalls
		f.wait(t, processes, 100)
		time.Sleep(time.Second) // a call is made just now
		require.NoError(t, processes[0].SetLimit(t.Context(), reserve.PerSecond(50), 0))
		halved := time.Since(f.start)
		time.Sleep(2*time.Second + 10*time.Millisecond)
		require.NoError(t, processes[3].SetLimit(t.Context(), reserve.PerSecond(200), 0))
		doubled := time.Since(f.start)
		f.done.Wait()

		before := f.between(0, halved+time.Millisecond)
		even(t, before, 0, 10*time.Millisecond)
		slow := f.between(halved+time.Millisecond, doubled)
		require.Len(t, slow, 100)
		even(t, slow, before[len(before)-1].at+20*time.Millisecond, 20*time.Millisecond)
		fast := f.between(doubled, time.Hour)
		even(t, fast, slow[len(slow)-1].at+10*time.Millisecond+10*time.Millisecond/4, 5*time.Millisecond)
		assert.Len(t, f.calls, 400)
		f.inOrder(t)
	})
}

func TestSetLimitUntilItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		processes := fleet(newHearingBubble(t), 2, reserve.PerSecond(10))
		var f fleetCalls
		f.wait(t, processes, 30)
		require.NoError(t, processes[0].SetLimit(t.Context(), reserve.PerSecond(1), 5*time.Second))
		set := time.Since(f.start)
		state, err := processes[1].State(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 1, state.Rate, 1e-9)
		assert.True(t, state.Set)
		assert.InDelta(t, 5*time.Second, state.SetFor, float64(time.Millisecond))
		f.done.Wait()
		during, after := f.between(set+time.Millisecond, set+5*time.Second), f.between(set+5*time.Second, time.Hour)
		assert.InDelta(t, 5, len(during), 1)
		// Who waits finds out when it claims: half of the inline bound before its turn.
		last := after[len(after)-1].at
		assert.InDelta(t, set+5*time.Second+time.Duration(len(after))*100*time.Millisecond, last, float64(600*time.Millisecond))
		assert.Len(t, f.calls, 60)
		f.inOrder(t)
		state, err = processes[1].State(t.Context())
		require.NoError(t, err)
		assert.False(t, state.Set)
		assert.InDelta(t, 10, state.Rate, 1e-9)
	})
}

// Processes that start, and those of a version that works with another limit, go by what
// was set.
func TestSetLimitStandsAboveTheVersionsOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHearingBubble(t)
		before := b.limiter(reserve.PerSecond(10))
		require.NoError(t, before.SetLimit(t.Context(), reserve.PerSecond(5), 0))
		require.NoError(t, before.Close())
		time.Sleep(24 * time.Hour)
		versions := append(fleet(b, 1, reserve.PerSecond(100)), fleet(b, 1, reserve.PerSecond(1))...)
		var f fleetCalls
		f.wait(t, versions, 20)
		f.done.Wait()
		even(t, f.calls, 0, 200*time.Millisecond)
		require.NoError(t, versions[0].ResetLimit(t.Context()))
		require.NoError(t, versions[0].ResetLimit(t.Context()), "once more")
		state, err := versions[0].State(t.Context())
		require.NoError(t, err)
		assert.False(t, state.Set)
		assert.InDelta(t, 100, state.Rate, 1e-9)
	})
}

// A burst below what calls cost fails these, and no others.
func TestSetLimitOfASmallerBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newHearingBubble(t).limiter(reserve.PerSecond(10).Burst(10))
		require.NoError(t, l.WaitN(t.Context(), 10))
		waits := make(chan error, 1)
		go func() { waits <- l.WaitN(context.Background(), 8) }()
		synctest.Wait()
		require.NoError(t, l.SetLimit(t.Context(), reserve.PerSecond(10).Burst(2), 0))
		err := l.WaitN(t.Context(), 3)
		require.ErrorIs(t, err, reserve.ErrExceedsBurst)
		require.ErrorContains(t, err, "2 permits that was set for all, got 3")
		_, err = l.ReserveN(t.Context(), 3)
		require.ErrorIs(t, err, reserve.ErrExceedsBurst)
		placed := l.LineUp(t.Context(), []reserve.Request{{ID: "a", N: 3}, {ID: "b", N: 2}})
		require.ErrorIs(t, placed[0].Err, reserve.ErrExceedsBurst)
		require.NoError(t, placed[1].Err)
		require.NoError(t, <-waits, "it waited already")
		require.NoError(t, l.WaitN(t.Context(), 2))
	})
}

func TestSetLimitInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		processes := fleet(newHearingBubble(t), 2, reserve.PerSecond(10))
		var f fleetCalls
		f.wait(t, processes, 20)
		time.Sleep(450 * time.Millisecond)
		require.NoError(t, processes[0].Pause(t.Context(), 5*time.Second, ""))
		end := time.Since(f.start) + 5*time.Second
		require.NoError(t, processes[1].SetLimit(t.Context(), reserve.PerSecond(4), 0))
		f.done.Wait()
		assert.Len(t, f.between(0, end), 5)
		even(t, f.between(end, time.Hour), end, 250*time.Millisecond)
	})
}

func TestSetLimitWrongly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(10))
		for text, limit := range map[string]reserve.Limit{
			"Limit": {}, "0/s": reserve.PerSecond(0), "-1": reserve.PerSecond(-1), "burst": reserve.PerSecond(1).Burst(0),
		} {
			err := l.SetLimit(t.Context(), limit, 0)
			require.ErrorIs(t, err, reserve.ErrInvalid, text)
		}
		require.ErrorContains(t, l.SetLimit(t.Context(), reserve.PerSecond(1), -time.Second), "expiry: must be 0, for none, or above, got -1s")
		assert.Empty(t, b.redis.Keys())
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.SetLimit(t.Context(), reserve.PerSecond(1), 0), reserve.ErrClosed)
	})
}
