package reserve_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// calling is a way to wait for a turn of limits of one process.
type calling func(t *testing.T, b *bubble, w *wire, limit reserve.Limit) func(context.Context) error

// callings are a limit alone, and several together.
var callings = map[string]calling{
	"one": func(t *testing.T, b *bubble, w *wire, limit reserve.Limit) func(context.Context) error {
		client := b.client()
		client.AddHook(w)
		l, err := reserve.New(client, reserve.Config{Name: "api", Limit: limit})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l.Wait
	},
	"all": func(t *testing.T, b *bubble, w *wire, limit reserve.Limit) func(context.Context) error {
		limits := b.groupOn(w, limit, reserve.PerSecond(100).Burst(5))
		j := joint(t, limits...)
		return func(ctx context.Context) error { return j.Wait(ctx) }
	},
	"rolling": func(t *testing.T, b *bubble, w *wire, limit reserve.Limit) func(context.Context) error {
		l := b.groupOn(w, reserve.Rolling(1, time.Duration(float64(time.Second)/limit.Rate())))[0]
		return l.Wait
	},
}

// giveUp makes a call that is given up after so long.
func giveUp(t *testing.T, wait func(context.Context) error, after time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(after, cancel)
	require.ErrorIs(t, wait(ctx), context.Canceled)
}

// Calls that are given up one after the other give way to the next, which has the turn that
// they would have had, however long the way to Redis is.
func TestGivenUpOneAfterTheOther(t *testing.T) {
	for name, calling := range callings {
		for _, way := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond} {
			for _, after := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s, %v away, after %v", name, way, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b, w := newBubble(t), &wire{}
						wait := calling(t, b, w, reserve.PerSecond(2))
						for range 2 { // the second one knows the way
							require.NoError(t, wait(t.Context()))
						}
						w.request.Store(int64(way / 2))
						w.delay.Store(int64(way / 2))
						time.Sleep(5 * time.Second)
						require.NoError(t, wait(t.Context()))
						start := time.Now()
						for range 3 {
							giveUp(t, wait, after)
						}
						require.NoError(t, wait(t.Context()))
						took := time.Since(start)
						require.LessOrEqual(t, took, 500*time.Millisecond+2*way)
						require.GreaterOrEqual(t, took, 500*time.Millisecond-way)
					})
				})
			}
		}
	}
}

// However many calls are given up, no permit is lost.
func TestGivenUpLoseNoPermits(t *testing.T) {
	for name, calling := range callings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, w := newBubble(t), &wire{}
				wait := calling(t, b, w, reserve.PerSecond(10))
				require.NoError(t, wait(t.Context()))
				start := time.Now()
				for i := range 100 {
					giveUp(t, wait, time.Duration(1+i%9)*time.Millisecond)
					if i%10 == 9 {
						require.NoError(t, wait(t.Context()))
						require.Equal(t, time.Duration(1+i/10)*100*time.Millisecond, time.Since(start))
					}
				}
			})
		})
	}
}

// Calls of one limit, and of it and another one, give way to each other.
func TestGivenUpByTurns(t *testing.T) {
	for _, way := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		for first := range 2 {
			t.Run(fmt.Sprint(way, " ", first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, w := newBubble(t), &wire{}
					limits := b.groupOn(w, reserve.PerSecond(2), reserve.PerSecond(100).Burst(5))
					j := joint(t, limits...)
					waits := []func(context.Context) error{limits[0].Wait, func(ctx context.Context) error { return j.Wait(ctx) }}
					for i := range 3 {
						require.NoError(t, waits[i%2](t.Context()))
					}
					w.delay.Store(int64(way))
					time.Sleep(5 * time.Second)
					require.NoError(t, waits[first](t.Context()))
					start := time.Now()
					for i := range 4 {
						giveUp(t, waits[(first+i)%2], 100*time.Millisecond)
					}
					require.NoError(t, waits[first](t.Context()))
					require.LessOrEqual(t, time.Since(start), 500*time.Millisecond)
				})
			})
		}
	}
}

// Calls that are given up all the time, so that some are always on their way back, keep
// nobody from asking.
func TestGivenUpAllTheTime(t *testing.T) {
	for name, least := range map[string]int{"one": 45, "all": 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasts = 5 * time.Second
				b, w := newBubble(t), &wire{}
				wait := callings[name](t, b, w, reserve.PerSecond(10))
				require.NoError(t, wait(t.Context()))
				w.request.Store(int64(5 * time.Millisecond))
				w.delay.Store(int64(5 * time.Millisecond))
				start, waits := time.Now(), 0
				var all sync.WaitGroup
				all.Go(func() {
					for time.Since(start) < lasts {
						all.Go(func() {
							ctx, cancel := context.WithCancel(t.Context())
							defer cancel()
							time.AfterFunc(30*time.Millisecond, cancel)
							_ = wait(ctx)
						})
						time.Sleep(5 * time.Millisecond)
					}
				})
				for time.Since(start) < lasts {
					require.NoError(t, wait(t.Context()))
					waits++
				}
				all.Wait()
				t.Logf("%d calls that wait in %v", waits, lasts)
				require.GreaterOrEqual(t, waits, least)
			})
		})
	}
}
