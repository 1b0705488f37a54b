package reserve_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Calls that come while others are under way share the next trip, and each permit is
// given once.
func TestCallsShareATrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		const calls = 1000
		l, wire := b.wired(t, reserve.PerSecond(1000).Burst(10*calls))
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.Wait(t.Context())) // the script is known
		before, err := l.State(t.Context())
		require.NoError(t, err)
		wire.scripts.Store(0)
		wire.delay.Store(int64(time.Millisecond))
		start := time.Now()
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() { require.NoError(t, l.WaitN(t.Context(), 1+i%3)) })
			if i == 0 {
				synctest.Wait() // it is on its way, alone
			}
		}
		all.Wait()
		require.Equal(t, 2*time.Millisecond, time.Since(start), "the first, and all others")
		require.Equal(t, int64(2), wire.scripts.Load())
		after, err := l.State(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 1+999/3*(1+2+3), before.Stored-after.Stored, 10, "and what became available meanwhile")
	})
}

// A call that is alone makes one call to Redis, and waits for nobody.
func TestLoneCallIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(1000).Burst(1000))
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, l.Wait(t.Context()))
		wire.scripts.Store(0)
		wire.request.Store(int64(3 * time.Millisecond))
		for n := range int64(100) {
			start := time.Now()
			switch n % 3 {
			case 0:
				require.NoError(t, l.Wait(t.Context()))
			case 1:
				require.NoError(t, l.Wait(context.Background()))
			default:
				allowed, err := l.Allow(t.Context())
				require.NoError(t, err)
				require.True(t, allowed)
			}
			require.Equal(t, 3*time.Millisecond, time.Since(start))
			require.Equal(t, n+1, wire.scripts.Load())
		}
	})
}

// Where Redis is far away, calls that come at any moment hardly wait for others.
func TestFarRedis(t *testing.T) {
	inParallel(t)
	synctest.Test(t, func(t *testing.T) {
		const way, calls = 5 * time.Millisecond, 4000
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(10_000).Burst(10_000))
		require.NoError(t, l.Wait(t.Context()))
		wire.request.Store(int64(way / 2))
		wire.delay.Store(int64(way / 2))
		random := rand.New(rand.NewPCG(1, 1))
		waits := make([]time.Duration, calls)
		var all sync.WaitGroup
		for i := range calls {
			time.Sleep(time.Duration(random.ExpFloat64() * float64(500*time.Microsecond)))
			all.Go(func() {
				start := time.Now()
				require.NoError(t, l.Wait(t.Context()))
				waits[i] = time.Since(start)
			})
		}
		all.Wait()
		settled := waits[calls/10:] // the process has to learn how far Redis is
		slices.Sort(settled)
		require.LessOrEqual(t, settled[len(settled)/2], way+way/10)
		require.LessOrEqual(t, settled[len(settled)*99/100], 2*way)
		t.Logf("median %v, p99 %v, %d script calls", settled[len(settled)/2], settled[len(settled)*99/100], wire.scripts.Load())
	})
}

// Where Redis is far away or stands still for a moment, calls that come meanwhile do not
// each begin a trip under a name of its own: Redis would have to work through them all,
// and know all the names for a minute.
func TestFewTripsAreUnderWay(t *testing.T) {
	inParallel(t)
	synctest.Test(t, func(t *testing.T) {
		const way, calls = 100 * time.Millisecond, 2000
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(10_000).Burst(10_000))
		wire.request.Store(int64(way))
		for range 3 { // the process learns how far Redis is
			require.NoError(t, l.Wait(t.Context()))
		}
		before := wire.scripts.Load()
		var all sync.WaitGroup
		for range calls {
			time.Sleep(way / calls)
			all.Go(func() { require.NoError(t, l.Wait(t.Context())) })
		}
		all.Wait()
		fields, err := b.admin().HKeys(t.Context(), b.redis.Keys()[0]).Result()
		require.NoError(t, err)
		names := 0
		for _, field := range fields {
			if strings.HasPrefix(field, "m:") {
				names++
			}
		}
		require.LessOrEqual(t, names, 20)
		require.LessOrEqual(t, wire.scripts.Load()-before, int64(60))
		t.Logf("%d calls: %d script calls under %d names", calls, wire.scripts.Load()-before, names)
	})
}

// A trip serves many lines. What is wrong with one of them is its own.
func TestErrorOfOneLineIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		const keys = 40
		l, wire := b.wired(t, reserve.PerSecond(1000).Burst(1000))
		key := func(i int) string { return "key" + strconv.Itoa(i) }
		for i := range keys {
			require.NoError(t, l.For(key(i)).Wait(t.Context()))
		}
		admin := b.admin()
		of := func(i int) string { return lua.Keys(reserve.DefaultPrefix, "api", key(i))[0] }
		require.NoError(t, admin.Del(t.Context(), of(3), of(5)).Err())
		require.NoError(t, admin.Set(t.Context(), of(3), "a text", 0).Err())
		require.NoError(t, admin.HSet(t.Context(), of(4), "tail", "many").Err())
		held := admin.HGetAll(t.Context(), of(4)).Val()

		require.NoError(t, l.For(key(0)).Wait(t.Context()))
		wire.delay.Store(int64(time.Millisecond))
		wire.scripts.Store(0)
		errs := make([]error, keys)
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() { errs[i] = l.For(key(i)).Wait(t.Context()) })
			if i == 0 {
				synctest.Wait() // it is on its way, alone
			}
		}
		all.Wait()
		for i, err := range errs {
			if i == 3 || i == 4 {
				require.ErrorIs(t, err, reserve.ErrCorrupt, "key %d", i)
			} else {
				require.NoError(t, err, "key %d", i)
			}
		}
		require.Equal(t, int64(2+3), wire.scripts.Load(), "the first, the others, and each of three lines again")
		require.Equal(t, "a text", admin.Get(t.Context(), of(3)).Val())
		require.Equal(t, held, admin.HGetAll(t.Context(), of(4)).Val(), "nothing was changed")
	})
}

// A process hears that there are more of them, and that there are fewer, though its
// calls ride.
func TestRidersHearOfOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		first, _ := b.wired(t, reserve.PerSecond(100).Burst(100))
		second, _ := b.wired(t, reserve.PerSecond(100).Burst(100))
		for range 10 {
			require.NoError(t, first.Wait(t.Context()))
		}
		require.NoError(t, second.Wait(t.Context()))
		require.NoError(t, first.Wait(t.Context()))
		require.Equal(t, int64(2), first.Processes())
		for range 120 {
			time.Sleep(time.Second)
			require.NoError(t, first.Wait(t.Context()))
		}
		require.Equal(t, int64(1), first.Processes())
	})
}

// Calls leave, miss their deadlines, cost too much and lose their Redis while they
// share trips. The others have their turns, nothing is granted beyond the limit, and
// every error is the call's own.
func TestRidersUnderStress(t *testing.T) {
	inParallel(t)
	const (
		rate, burst = 2000, 100
		processes   = 3
		callers     = 40
		lasts       = 4 * time.Second
	)
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		// A reply that is late may be used for 20 ms beyond its permits' time.
		api := provider.New(provider.TokenBucket(rate, burst+rate/50))
		var calls, left, missed, refused, lost atomic.Int64
		var all sync.WaitGroup
		start := time.Now()
		for p := range processes {
			l, wire := b.wiredWith(t, reserve.Config{
				Limit:  reserve.PerSecond(rate).Burst(burst),
				Outage: reserve.Outage{Policy: reserve.PolicyWait},
			})
			wire.request.Store(int64(500 * time.Microsecond))
			for c := range callers {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(p), uint64(c)))
					for time.Since(start) < lasts {
						// Demand is above the limit in some seconds, and below in others.
						busy := int(time.Since(start)/time.Second)%4 < 2
						if !busy {
							time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
						}
						n, ctx, cancel := 1+random.IntN(3), t.Context(), func() {}
						kind := random.IntN(8)
						switch kind {
						case 0:
							ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(40))*time.Millisecond)
						case 1:
							var end context.CancelFunc
							ctx, end = context.WithCancel(ctx)
							timer := time.AfterFunc(time.Duration(random.IntN(4000))*time.Microsecond, end)
							cancel = func() { timer.Stop(); end() }
						case 2:
							n = burst + 1
						case 3:
							if random.IntN(50) == 0 {
								wire.lose.Store(1)
							}
						}
						allowed, err := true, error(nil)
						if kind == 4 {
							allowed, err = l.AllowN(ctx, n)
						} else {
							err = l.WaitN(ctx, n)
						}
						cancel()
						switch {
						case kind == 2:
							require.ErrorIs(t, err, reserve.ErrExceedsBurst)
							refused.Add(1)
						case kind == 0 && err != nil:
							require.Condition(t, func() bool {
								return errors.Is(err, reserve.ErrWouldMissDeadline) || errors.Is(err, context.DeadlineExceeded)
							}, "%v", err)
							missed.Add(1)
						case kind == 1 && err != nil:
							require.ErrorIs(t, err, context.Canceled)
							left.Add(1)
						default:
							require.NoError(t, err)
							if allowed {
								calls.Add(int64(n))
								ok, _ := api.Judge(n)
								require.True(t, ok, "refused at %v", time.Since(start))
							} else {
								lost.Add(1)
							}
						}
					}
				})
			}
		}
		all.Wait()
		t.Logf("%d permits used, %d calls left, %d missed their deadlines, %d cost too much, %d were not allowed",
			calls.Load(), left.Load(), missed.Load(), refused.Load(), lost.Load())
		for _, n := range []*atomic.Int64{&left, &missed, &refused, &lost} {
			require.Positive(t, n.Load())
		}
		require.Greater(t, calls.Load(), int64(rate*0.45*lasts.Seconds()), "half of the time there is more demand than the limit")
	})
}
