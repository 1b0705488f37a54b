package reserve_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// Whichever limiter of a Joint is closed ends its waits, and returns once what they held is
// back in all limits.
func TestClosingOneOfThemEndsAJointsWaits(t *testing.T) {
	for closed := range 3 {
		for _, way := range []time.Duration{0, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("limit %d, %v away", closed, way), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, w := newBubble(t), &wire{}
					kinds := []reserve.Limit{reserve.PerSecond(1), reserve.Rolling(100, time.Hour), reserve.PerMinute(1).Burst(5)}
					limits := b.groupOn(w, kinds...)
					j, watcher := joint(t, limits...), b.group(kinds...)
					require.NoError(t, j.Wait(t.Context()))
					w.delay.Store(int64(way))

					// One has a turn that is near, one waits, and one was let through by most of them.
					ended := make(chan error)
					for _, costs := range [][]int{{1, 1, 1}, {1, 1, 1}, {1, 50, 4}} {
						go func() { ended <- j.Wait(context.Background(), costs...) }()
						time.Sleep(200 * time.Millisecond)
					}
					require.Positive(t, waiting(t, watcher[0])+waiting(t, watcher[2]))

					start := time.Now()
					done := make(chan struct{})
					go func() {
						defer close(done)
						require.NoError(t, limits[closed].Close())
					}()
					for range 3 {
						require.ErrorIs(t, <-ended, reserve.ErrClosed)
					}
					require.Zero(t, time.Since(start), "the waits end at once")
					<-done
					require.LessOrEqual(t, time.Since(start), way)
					require.Zero(t, waiting(t, watcher[0])+waiting(t, watcher[2]), "what they held is back")
					both := joint(t, watcher...)
					time.Sleep(time.Second - time.Since(start))
					ok, err := both.Allow(t.Context(), 1, 99, 1)
					require.NoError(t, err)
					require.True(t, ok, "all of the permits are there")

					require.ErrorIs(t, j.Wait(t.Context()), reserve.ErrClosed)
					_, err = j.Allow(t.Context())
					require.ErrorIs(t, err, reserve.ErrClosed)
					_, err = j.Reserve(t.Context())
					require.ErrorIs(t, err, reserve.ErrClosed)
				})
			})
		}
	}
}

// While Redis is away, closing one of the limiters ends the waits, too, and does not last.
func TestClosingAJointWithoutRedis(t *testing.T) {
	for _, policy := range []reserve.Policy{reserve.PolicyWait, reserve.PolicyLocal} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				client := b.client()
				var limits []*reserve.Limiter
				for i := range 2 {
					l, err := reserve.New(client, reserve.Config{
						Name: fmt.Sprint("limit-", i), Group: "api", Limit: reserve.PerHour(1),
						Outage: reserve.Outage{Policy: policy, Probe: time.Minute},
					})
					require.NoError(t, err)
					t.Cleanup(func() { _ = l.Close() })
					limits = append(limits, l)
				}
				j := joint(t, limits...)
				require.NoError(t, j.Wait(t.Context()))
				b.redis.SetError(loading)
				ended := make(chan error)
				go func() { ended <- j.Wait(context.Background()) }()
				time.Sleep(10 * time.Second)
				start := time.Now()
				go func() { _ = limits[1].Close() }()
				require.ErrorIs(t, <-ended, reserve.ErrClosed)
				require.Zero(t, time.Since(start))
				require.NoError(t, limits[1].Close())
				require.Zero(t, time.Since(start))
			})
		})
	}
}

// What calls have is given back, and settled, after Close, too.
func TestJointGivesBackAfterClose(t *testing.T) {
	for closed := range 2 {
		t.Run(fmt.Sprint("limit ", closed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				kinds := []reserve.Limit{reserve.PerMinute(1), reserve.Quota(10, reserve.CalendarDay)}
				limits, watcher := b.group(kinds...), b.group(kinds...)
				j, other := joint(t, limits...), joint(t, watcher...)
				used, err := j.Reserve(t.Context(), 1, 5)
				require.NoError(t, err)
				require.NoError(t, used.Wait(t.Context()))
				near, err := j.Reserve(t.Context(), 1, 2)
				require.NoError(t, err)
				far, err := j.Reserve(t.Context(), 1, 2)
				require.NoError(t, err)
				time.Sleep(59500 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, near.Wait(ctx), context.DeadlineExceeded) // its turn is fixed now

				ended := make(chan error)
				go func() { ended <- far.Wait(context.Background()) }()
				synctest.Wait()
				require.NoError(t, limits[closed].Close())
				require.ErrorIs(t, <-ended, reserve.ErrClosed)
				require.EqualValues(t, 1, waiting(t, watcher[0]), "a reservation stays in the line")
				require.NoError(t, near.Cancel(t.Context()))
				require.NoError(t, far.Cancel(t.Context()))
				require.NoError(t, far.Cancel(t.Context()))
				require.Zero(t, waiting(t, watcher[0]))
				require.NoError(t, used.Settle(t.Context(), 1, 1))

				start := time.Now()
				require.NoError(t, other.Wait(t.Context(), 1, 9))
				require.LessOrEqual(t, time.Since(start), 500*time.Millisecond)
			})
		})
	}
}
