package reserve_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// trips counts scripts that settle.
type trips struct{ n atomic.Int64 }

func (*trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && cmd.Args()[1] == lua.Settle.Hash() {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (*trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// settler is a limit of a process whose trips are counted.
func settler(b *bubble, limit reserve.Limit) (*reserve.Limiter, *trips) {
	client, c := b.client(), &trips{}
	client.AddHook(c)
	return b.on(client, reserve.Config{Limit: limit, Settles: true}), c
}

// However many streams of a process report however often, four trips a second are enough, and each report has its outcome.
func TestSettleSoonInFewTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, reports, lasts = 30, 100, 10 * time.Second
		l, trips := settler(newBubble(t), reserve.PerSecond(1000).Burst(100_000))
		var all sync.WaitGroup
		var told atomic.Int64
		for range streams {
			r := held(t, l, 10)
			require.NoError(t, r.Wait(t.Context()))
			all.Go(func() {
				for n := range reports {
					r.SettleSoon(func(err error) {
						assert.NoError(t, err)
						told.Add(1)
					}, 11+n)
					time.Sleep(lasts / reports)
				}
				time.Sleep(time.Second)
				assert.Equal(t, []int{10 + reports}, r.Charged())
			})
		}
		all.Wait()
		assert.EqualValues(t, streams*reports, told.Load())
		assert.LessOrEqual(t, trips.n.Load(), int64(4*lasts/time.Second+1))
		assert.Greater(t, trips.n.Load(), int64(3*lasts/time.Second))
	})
}

// The first report goes at once, and the next one a quarter of a second later. The last number that waits counts, and
// an estimate for one limit does not replace the real cost.
func TestSettleSoonReplaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, trips := settler(newBubble(t), reserve.PerSecond(1).Burst(1000))
		first, second := held(t, l, 100), held(t, l, 100)
		require.NoError(t, first.Wait(t.Context()))
		require.NoError(t, second.Wait(t.Context()))
		var order []int
		report := func(r *reserve.Reservation, used int) {
			r.SettleSoon(func(err error) {
				assert.NoError(t, err)
				order = append(order, used)
			}, used)
		}
		report(first, 120)
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int{120}, order, "the first one goes at once")
		second.EstimateSoon(nil, 90)
		report(second, 80)
		report(first, 130)
		report(second, 60)
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int{120}, order)
		require.Equal(t, []int{100}, second.Charged())
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int{120, 80, 60, 130}, order)
		require.Equal(t, []int{130}, first.Charged())
		require.Equal(t, []int{60}, second.Charged())
		require.EqualValues(t, 2, trips.n.Load())

		report(first, 140)
		report(second, 70)
		require.NoError(t, second.Settle(t.Context(), 110), "who waits for it does not wait for others")
		require.Equal(t, []int{140}, first.Charged(), "who waits takes them along")
		require.Equal(t, []int{110}, second.Charged())
		require.EqualValues(t, 3, trips.n.Load())

		third, err := l.Reserve(t.Context())
		require.NoError(t, err)
		failure := make(chan error, 1)
		third.SettleSoon(func(err error) { failure <- err }, 1, 1)
		require.ErrorIs(t, <-failure, reserve.ErrInvalid)
	})
}

// A report whose reply is lost is repeated, and counts once: also what is reported after it.
func TestSettledOnceIfRepliesAreLost(t *testing.T) {
	for name, limit := range map[string]reserve.Limit{"paced": reserve.PerSecond(1).Burst(1000), "quota": reserve.Quota(1000, reserve.CalendarDay), "rolling": reserve.Rolling(1000, 24*time.Hour)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t)
				l, trips := settler(b, limit)
				r := held(t, l, 100)
				require.NoError(t, r.Wait(t.Context()))
				stored := state(t, l).Stored
				for n, used := range []int{120, 150, 150, 200} { // Redis knows the script when the second reply is lost
					b.cut.Store(n == 1)
					outcome := make(chan error, 1)
					r.SettleSoon(func(err error) { outcome <- err }, used)
					time.Sleep(253 * time.Millisecond) // the trip began a moment ago
					b.cut.Store(false)
					require.NoError(t, <-outcome)
					assert.Equal(t, []int{used}, r.Charged())
				}
				assert.GreaterOrEqual(t, trips.n.Load(), int64(4))
				assert.InDelta(t, stored-100, state(t, l).Stored, 2)
			})
		})
	}
}

// Close sends what waits, also of a limit that is not the last one of its group. Later reports go at once.
func TestCloseSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		config := reserve.Config{Group: "api", Name: "one", Limit: reserve.PerSecond(1).Burst(1000), Settles: true}
		l := b.on(client, config)
		config.Name = "two"
		b.on(client, config)
		r := held(t, l, 100)
		require.NoError(t, r.Wait(t.Context()))
		outcomes := errors.New("none")
		for used := range 3 {
			r.SettleSoon(func(err error) { outcomes = err }, 101+used)
			synctest.Wait()
		}
		start := time.Now()
		require.NoError(t, l.Close())
		require.NoError(t, outcomes)
		require.Equal(t, []int{103}, r.Charged())
		require.Less(t, time.Since(start), 100*time.Millisecond)
	})
}

// Close of a limit ends, though calls of another limit of its group report all the time.
func TestCloseBesideReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		config := reserve.Config{Group: "api", Name: "one", Limit: reserve.PerSecond(1).Burst(1000), Settles: true}
		l := b.on(client, config)
		config.Name = "two"
		other := b.on(client, config)
		var closed atomic.Bool
		var all sync.WaitGroup
		start := time.Now()
		for range 4 {
			r := held(t, other, 1)
			require.NoError(t, r.Wait(t.Context()))
			all.Go(func() {
				for used := 2; !closed.Load() && time.Since(start) < 2*time.Second; used++ {
					assert.NoError(t, r.Settle(t.Context(), used))
				}
			})
		}
		require.NoError(t, l.Close())
		closed.Store(true)
		require.Less(t, time.Since(start), time.Second)
		all.Wait()
	})
}

// Who does not wait for the outcome any more has sent the report nevertheless.
func TestSettleAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := settler(newBubble(t), reserve.PerSecond(1).Burst(1000))
		r := held(t, l, 100)
		require.NoError(t, r.Wait(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, r.Settle(ctx, 150), context.DeadlineExceeded)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, []int{150}, r.Charged())
	})
}
