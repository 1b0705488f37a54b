package reserve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// A used ID names the turn that was used, until it is forgotten: then it names a
// new one, and the provider refuses nothing.
func TestForgetFreesTheID(t *testing.T) {
	for name, enter := range map[string]func(*testing.T, *reserve.Limiter) *reserve.Reservation{
		"reserve": func(t *testing.T, l *reserve.Limiter) *reserve.Reservation {
			r, err := l.ReserveAs(t.Context(), "id", 1)
			require.NoError(t, err)
			return r
		},
		"claim": func(t *testing.T, l *reserve.Limiter) *reserve.Reservation {
			r, err := l.Claim(t.Context(), "id", 1)
			require.NoError(t, err)
			return r
		},
		"enter": func(t *testing.T, l *reserve.Limiter) *reserve.Reservation {
			r, err := l.Enter(t.Context(), "id", 1)
			require.NoError(t, err)
			return r
		},
		"line up": func(t *testing.T, l *reserve.Limiter) *reserve.Reservation {
			p := l.LineUp(t.Context(), []reserve.Request{{ID: "id", N: 1}})[0]
			require.NoError(t, p.Err)
			return p.Reservation
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				l := b.limiter(reserve.PerSecond(1).Burst(2))
				forgetful, strict := provider.New(provider.TokenBucket(1, 2)), provider.New(provider.TokenBucket(1, 2))

				var last int64
				for range 5 {
					r := enter(t, l)
					require.NoError(t, r.Wait(t.Context()))
					strict.Judge(1)
					forgetful.Judge(1)
					require.Greater(t, r.Number(), last)
					last = r.Number()

					// Without Forget it is the same turn again, and a call made with it
					// would be one too many.
					same := enter(t, l)
					require.Equal(t, last, same.Number())
					require.True(t, same.Final())
					forgetful.Judge(1)

					require.NoError(t, r.Forget(t.Context()))
					require.NoError(t, r.Forget(t.Context()), "it may be repeated")
				}
				require.Zero(t, strict.Summary().Refused)
				require.Positive(t, forgetful.Summary().Refused)
			})
		})
	}
}

// Only a used turn can be forgotten.
func TestForgetWhatWasNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.enduring(reserve.PerSecond(1), reserve.PolicyFail)
		r, err := l.ReserveAs(t.Context(), "id", 1)
		require.NoError(t, err)
		require.ErrorIs(t, r.Forget(t.Context()), reserve.ErrInvalid)
		require.ErrorContains(t, r.Forget(t.Context()), `reserve: forget "api"`)
		again, err := l.ReserveAs(t.Context(), "id", 1)
		require.NoError(t, err)
		require.Equal(t, r.Number(), again.Number(), "nothing changed")

		require.NoError(t, r.Wait(t.Context()))
		b.redis.SetError("LOADING Redis is loading the dataset in memory")
		require.ErrorIs(t, r.Forget(t.Context()), reserve.ErrUnavailable)
		b.redis.SetError("")
		time.Sleep(time.Second)
		require.NoError(t, r.Forget(t.Context()))
	})
}

// A final turn lapses when its permits no longer fit in the bucket, and the 20 ms
// of a busy process have passed. One that is not final does not.
func TestLapsed(t *testing.T) {
	for _, c := range []struct {
		burst, cost int
		after       time.Duration
	}{{1, 1, 0}, {5, 1, 4 * time.Second}, {5, 3, 2 * time.Second}, {5, 5, 0}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			l := b.limiter(reserve.PerSecond(1).Burst(c.burst))
			_, err := l.ReserveN(t.Context(), c.burst)
			require.NoError(t, err)
			far, err := l.ReserveN(t.Context(), c.cost)
			require.NoError(t, err)
			time.Sleep(time.Until(far.Due()) - 100*time.Millisecond)
			r, err := l.Claim(t.Context(), far.ID(), c.cost)
			require.NoError(t, err)
			require.True(t, r.Final())
			require.False(t, r.Lapsed())
			time.Sleep(time.Until(r.Due()) + c.after + 20*time.Millisecond)
			require.False(t, r.Lapsed())
			time.Sleep(time.Millisecond)
			require.True(t, r.Lapsed())
			if !far.Final() {
				require.False(t, far.Lapsed())
			}
			require.NoError(t, r.Wait(t.Context()), "it claims again")
			require.False(t, r.Lapsed())
		})
	}
}
