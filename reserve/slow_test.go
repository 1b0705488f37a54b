package reserve_test

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/reserve"
)

// The way to Redis becomes longer for good. A reply that is later than those before
// may not be used, but soon all are, and then calls go on at once.
func TestLongerWayToRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l, wire := b.wired(t, reserve.PerSecond(100))
		ask := func() time.Duration {
			time.Sleep(time.Second)
			start := time.Now()
			require.NoError(t, l.Wait(t.Context()))
			return time.Since(start)
		}
		for range 10 {
			require.Zero(t, ask())
		}
		const way = 200 * time.Millisecond
		wire.delay.Store(int64(way))
		for range 3 {
			require.LessOrEqual(t, ask(), 10*way)
		}
		for range 10 {
			require.LessOrEqual(t, ask(), way)
		}
	})
}

// A reply that is late is not used where the bucket was full: its permit was among
// those that would have overflowed meanwhile.
func TestLateReplyFromAFullBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, grains = 10, 100
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate*grains, 2*grains+2*grains/10)) // bears 20 ms
		fast := b.limiter(reserve.PerSecond(rate).Burst(2))
		slow, wire := b.wired(t, reserve.PerSecond(rate).Burst(2))
		require.NoError(t, fast.Wait(t.Context()))
		require.NoError(t, slow.Wait(t.Context()))
		for range 20 {
			time.Sleep(time.Second)
			wire.delay.Store(int64(90 * time.Millisecond))
			var all sync.WaitGroup
			all.Go(func() {
				require.NoError(t, slow.Wait(t.Context()))
				api.Judge(grains)
			})
			time.Sleep(85 * time.Millisecond)
			wire.delay.Store(0)
			for range 5 {
				require.NoError(t, fast.Wait(t.Context()))
				api.Judge(grains)
			}
			all.Wait()
		}
		require.Zero(t, api.Summary().Refused)
	})
}

// A slow and unsteady way to Redis, 100 ms ± 50 ms each way, costs no turns while
// many wait: they are claimed early enough.
func TestSlowWayToRedis(t *testing.T) {
	const rate = 100
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		api := provider.New(provider.TokenBucket(rate, 10))
		random := rand.New(rand.NewPCG(1, 1))
		var fleet []*reserve.Limiter
		var wires []*wire
		for range 4 {
			l, wire := b.wired(t, reserve.PerSecond(rate))
			fleet, wires = append(fleet, l), append(wires, wire)
		}
		stop := load(t, api, 50, fleet...)
		time.Sleep(3 * time.Second)
		begin := time.Now()
		for time.Since(begin) < 10*time.Second {
			for _, w := range wires {
				w.request.Store(int64(50*time.Millisecond + time.Duration(random.Int64N(int64(100*time.Millisecond)))))
				w.delay.Store(int64(50*time.Millisecond + time.Duration(random.Int64N(int64(100*time.Millisecond)))))
			}
			time.Sleep(10 * time.Millisecond)
		}
		end := time.Now()
		stop()
		n, refused := calls(api, begin.Add(time.Second), end)
		t.Logf("%d calls in 9 s, %d refused", n, refused)
		require.Zero(t, refused)
		require.GreaterOrEqual(t, n, 9*rate*95/100)
	})
}

// After an outage the way to Redis takes longer than a first attempt may: the
// process finds back nevertheless.
func TestSlowWayBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		w, client := &wire{}, b.client()
		client.AddHook(w)
		var log strings.Builder
		l, err := reserve.New(client, reserve.Config{
			Name: "api", Limit: reserve.PerSecond(100), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		b.redis.SetError(loading)
		stop := load(t, provider.New(), 10, l)
		time.Sleep(5 * time.Second)
		w.delay.Store(int64(700 * time.Millisecond))
		b.redis.SetError("")
		time.Sleep(6 * time.Second)
		stop()
		require.NoError(t, l.Close())
		require.Contains(t, log.String(), "gives turns again")
	})
}
