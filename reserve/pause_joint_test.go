package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// several makes the limits of a Joint, each with its own MaxPause.
func several(b *bubble, policy reserve.Policy, most ...time.Duration) []*reserve.Limiter {
	client := b.client()
	var limits []*reserve.Limiter
	for i, d := range most {
		limits = append(limits, b.on(client, reserve.Config{
			Name: fmt.Sprint("limit-", i), Group: "api", Limit: reserve.PerSecond(1000).Burst(100), MaxPause: d,
			Outage: reserve.Outage{Policy: policy},
		}))
	}
	return limits
}

// Without Redis a Joint pauses all of its limits in this process, each up to its own MaxPause.
func TestPauseOfAJointWhileRedisIsAway(t *testing.T) {
	for _, policy := range []reserve.Policy{reserve.PolicyOpen, reserve.PolicyLocal} {
		for _, most := range [][]time.Duration{{20 * time.Second, 0}, {0, 20 * time.Second}, {5 * time.Second, 20 * time.Second, 0}, {0, 0}} {
			for _, opened := range []bool{false, true} { // whether the breaker has opened before
				synctest.Test(t, func(t *testing.T) {
					b := newBubble(t)
					limits := several(b, policy, most...)
					both := joint(t, limits...)
					require.NoError(t, both.Wait(t.Context()))
					b.mini.SetError(loading)
					for i := 0; opened && i < 5; i++ {
						require.NoError(t, limits[0].Wait(t.Context()))
					}
					begun := time.Now()
					require.ErrorIs(t, both.Pause(t.Context(), 30*time.Second, ""), reserve.ErrUnavailable)
					for i, l := range limits {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						assert.Error(t, l.Wait(ctx), "MaxPause %v, policy %v: limit %d goes on", most, policy, i)
						cancel()
					}
					for i, l := range limits {
						require.NoError(t, l.Wait(t.Context()))
						if most[i] > 0 {
							assert.InDelta(t, max(most[i], time.Since(begun)-time.Second), time.Since(begun), float64(3*time.Second))
						}
					}
				})
			}
		}
	}
}

// A limit that cannot be paused does not keep a Joint from pausing the others: the error says
// which one is wrong.
func TestPauseOfAJointWithALimitThatIsWrong(t *testing.T) {
	for wrong := range 3 {
		for _, most := range [][]time.Duration{{3 * time.Second, 4 * time.Second, 5 * time.Second}, {5 * time.Second, 5 * time.Second, 4 * time.Second}, {0, 0, 0}} {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				limits := several(b, reserve.PolicyLocal, most...)
				both := joint(t, limits...)
				require.NoError(t, both.Wait(t.Context()))
				for _, key := range b.mini.Keys() {
					if b.mini.Type(key) == "hash" && strings.Contains(key, fmt.Sprint("limit-", wrong)) && b.mini.HGet(key, "nextFreeTicketMicros") != "" {
						b.mini.HSet(key, "nextFreeTicketMicros", "soon")
					}
				}
				require.ErrorIs(t, both.Pause(t.Context(), 10*time.Second, ""), reserve.ErrCorrupt)
				for i, l := range limits {
					s, err := l.State(t.Context())
					if i == wrong {
						require.ErrorIs(t, err, reserve.ErrCorrupt)
						continue
					}
					require.NoError(t, err)
					assert.Positive(t, s.Paused, "MaxPause %v, limit %d is wrong: limit %d goes on", most, wrong, i)
				}
			})
		}
	}
}

// A context that ends ends a verb, also while the verb rests between two tries to reach Redis.
func TestVerbsEndWithTheirContext(t *testing.T) {
	verbs := map[string]func(context.Context, *reserve.Limiter) error{
		"pause":       func(ctx context.Context, l *reserve.Limiter) error { return l.Pause(ctx, time.Second, "") },
		"resume":      func(ctx context.Context, l *reserve.Limiter) error { return l.Resume(ctx) },
		"set limit":   func(ctx context.Context, l *reserve.Limiter) error { return l.SetLimit(ctx, reserve.PerSecond(5), 0) },
		"reset limit": func(ctx context.Context, l *reserve.Limiter) error { return l.ResetLimit(ctx) },
		"state":       func(ctx context.Context, l *reserve.Limiter) error { _, err := l.State(ctx); return err },
		"cancel booking": func(ctx context.Context, l *reserve.Limiter) error {
			j, err := reserve.All(l)
			return errors.Join(err, j.CancelBooking(ctx, "a"))
		},
		"book": func(ctx context.Context, l *reserve.Limiter) error {
			j, err := reserve.All(l)
			return errors.Join(err, j.Book(ctx, []reserve.Call{{ID: "a"}})[0].Err)
		},
	}
	for name, verb := range verbs {
		for _, after := range []time.Duration{5 * time.Millisecond, 150 * time.Millisecond, 700 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				l := b.with(reserve.Config{Limit: reserve.PerSecond(10), Outage: reserve.Outage{Failures: 100}})
				require.NoError(t, l.Wait(t.Context()))
				b.mini.SetError(loading)
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				start := time.Now()
				require.ErrorIs(t, verb(ctx, l), context.DeadlineExceeded)
				assert.LessOrEqual(t, time.Since(start), after+5*time.Millisecond, "%s goes on after its context, of %v", name, after)
			})
		}
	}
}
