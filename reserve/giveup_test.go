package reserve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// callings are ways to wait for a turn: of a limit alone, of several, of a rolling one.
var callings = map[string]func(*bubble, reserve.Limit) func(context.Context) error{
	"one": func(b *bubble, limit reserve.Limit) func(context.Context) error { return b.limiter(limit).Wait },
	"all": func(b *bubble, limit reserve.Limit) func(context.Context) error {
		return once(joint(b, b.group(limit, reserve.PerSecond(100).Burst(5))...))
	},
	"rolling": func(b *bubble, limit reserve.Limit) func(context.Context) error {
		return b.limiter(reserve.Rolling(1, limit.Interval())).Wait
	},
}

// giveUp makes a call that is given up after so long.
func giveUp(t *testing.T, wait func(context.Context) error, after time.Duration) {
	t.Helper()
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
						b := newBubble(t)
						b.way.Store(int64(way / 2))
						wait := calling(b, reserve.PerSecond(2))
						for range 5 { // then the way is known
							require.NoError(t, wait(t.Context()))
						}
						time.Sleep(5 * time.Second)
						require.NoError(t, wait(t.Context()))
						start := time.Now()
						for range 3 {
							giveUp(t, wait, after)
						}
						require.NoError(t, wait(t.Context()))
						took := time.Since(start)
						require.LessOrEqual(t, took, 500*time.Millisecond+2*way)
						require.GreaterOrEqual(t, took, 500*time.Millisecond-way-time.Millisecond)
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
				b := newBubble(t)
				wait := calling(b, reserve.PerSecond(10))
				for range 5 {
					require.NoError(t, wait(t.Context()))
				}
				start := time.Now()
				for i := range 100 {
					giveUp(t, wait, time.Duration(1+i%9)*time.Millisecond)
					if i%10 == 9 {
						require.NoError(t, wait(t.Context()))
						require.InDelta(t, 0.1*float64(1+i/10), time.Since(start).Seconds(), 0.005)
					}
				}
			})
		})
	}
}

// Calls that are given up all the time, so that some are always on their way back, keep nobody
// from asking.
func TestGivenUpAllTheTime(t *testing.T) {
	for name, calling := range callings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const lasts = 5 * time.Second
				b := newBubble(t)
				b.way.Store(int64(5 * time.Millisecond))
				wait := calling(b, reserve.PerSecond(10))
				require.NoError(t, wait(t.Context()))
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
				require.GreaterOrEqual(t, waits, 8)
			})
		})
	}
}

// slow are limits of which every turn counts.
var slow = []reserve.Limit{reserve.PerMinute(6), reserve.PerMinute(1), reserve.PerHour(1), reserve.PerDay(1)}

// A third of all calls give up, some as their turn comes: at most a hundredth of the turns is
// lost.
func TestAThirdGivesUp(t *testing.T) {
	const turns, callers = 100, 6
	for _, limit := range []reserve.Limit{reserve.PerSecond(10), slow[0]} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				calls := newLog()
				end := turns * limit.Interval()
				for who := range 2 * callers {
					if who%callers == 0 {
						l := b.limiter(limit)
						for range callers {
							calls.busy.Go(func() { quitter(t, calls, l, end) })
						}
					}
				}
				calls.busy.Wait()
				made := calls.between(0, end)
				t.Logf("%d of %d turns used", len(made), turns)
				require.GreaterOrEqual(t, len(made), turns*99/100)
				require.LessOrEqual(t, len(made), turns+1)
			})
		})
	}
}

// quitter calls until the end, and gives up a third of its calls.
func quitter(t *testing.T, calls *log, l *reserve.Limiter, end time.Duration) {
	for calls.now() < end {
		ctx, cancel := context.WithCancel(t.Context())
		if rand.IntN(3) == 0 {
			time.AfterFunc(rand.N(8*l.Limit().Interval()), cancel)
		}
		if l.Wait(ctx) == nil {
			calls.mu.Lock()
			calls.calls = append(calls.calls, call{after: calls.now()})
			calls.mu.Unlock()
		}
		cancel()
	}
}
