package adaptive_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	inbubble "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// A paced limit adapts, also as the one limit of a Joint, and one of several that calls need;
// other kinds, and several at once, are refused with what is to be done.
func TestKinds(t *testing.T) {
	for _, k := range inbubble.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				client := b.Client()
				turns := b.Turns(client, k)
				config := adaptive.Config{Floor: reserve.Every(time.Minute), Ceiling: reserve.PerSecond(2)}
				_, err := adaptive.New(client, turns, config)
				switch {
				case len(k.Limits) > 1:
					require.ErrorIs(t, err, reserve.ErrInvalid)
					require.ErrorContains(t, err, `invalid limiter: must be one limit, got "limit-0 + limit-1 + limit-2"`)
				case k.Limits[0].Kind() != reserve.KindPaced:
					require.ErrorIs(t, err, reserve.ErrInvalid)
					require.ErrorContains(t, err, "invalid limiter: must be paced, because its rate changes, got "+k.Limits[0].String())
				default:
					require.NoError(t, err)
				}
				if k.Limits[0].Kind() == reserve.KindPaced {
					one, err := reserve.All(turns.Limits()[0])
					require.NoError(t, err)
					adapts(t, b, turns, one, config)
				}
			})
		})
	}
}

// adapts lets the rate of one of some limits move, with every verb that moves them, too.
func adapts(t *testing.T, b *bubble, turns reserve.Turns, one *reserve.Joint, config adaptive.Config) {
	rate, err := adaptive.New(b.Client(), one, config)
	require.NoError(t, err)
	defer rate.Close()
	p := process{Limiter: one.Limits()[0], rate: rate}
	all, err := reserve.All(turns.Limits()...)
	require.NoError(t, err)

	require.NoError(t, all.Wait(t.Context()))
	p.refused()
	require.InDelta(t, 0.7, p.now(t), near)
	allowed, err := all.Allow(t.Context())
	require.NoError(t, err)
	require.True(t, allowed)

	require.NoError(t, turns.Pause(t.Context(), 10*time.Second, "the API wants it"))
	time.Sleep(2 * time.Second)
	p.refused()
	require.InDelta(t, 0.49, p.now(t), near, "in a pause")
	require.NoError(t, turns.Resume(t.Context()))
	require.NoError(t, p.SetLimit(t.Context(), reserve.PerSecond(2).Burst(5), time.Hour))
	time.Sleep(2 * time.Second)
	p.refused()
	require.InDelta(t, 1.4, p.now(t), near, "of what was set by hand")
	states, err := all.States(t.Context())
	require.NoError(t, err)
	assert.InDelta(t, 1.4, states[0].Rate, near)
	for i, s := range states[1:] {
		assert.False(t, s.Set, "limit %d", i+1)
	}
}

// Costs that are settled are as others here. Of a call that was made under another rate nothing
// comes back: the provider's bucket may have been full since.
func TestLimitThatSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.Client()
		limiter := b.Limiter(client, reserve.Config{Limit: reserve.PerSecond(10).Burst(5), Settles: true})
		rate, err := adaptive.New(client, limiter, adaptive.Config{})
		require.NoError(t, err)
		defer rate.Close()
		call, err := limiter.ReserveN(t.Context(), 5)
		require.NoError(t, err)
		require.NoError(t, call.Wait(t.Context()))
		process{Limiter: limiter, rate: rate}.refused()
		require.NoError(t, call.Settle(t.Context(), 2))
		state, err := limiter.State(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 7, state.Rate, near)
		require.Zero(t, state.Stored)

		call, err = limiter.ReserveN(t.Context(), 5)
		require.NoError(t, err)
		require.NoError(t, call.Wait(t.Context()))
		require.NoError(t, call.Settle(t.Context(), 2))
		state, err = limiter.State(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 3, state.Stored, 0.5)
	})
}
