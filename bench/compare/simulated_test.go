package main

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// What the comparison counts is the same on any machine where time is simulated: these
// tests judge the counts, and no time.

// simulatedRedis makes clients of one Redis in the simulated time of testing/synctest,
// with connections in memory.
func simulatedRedis(t *testing.T) (client func() *redis.Client) {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	return func() *redis.Client {
		c := redis.NewClient(&redis.Options{
			Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			// Nothing may leave the bubble: an address that needs no look-up, and none of
			// what a client asks a real server about.
			Addr:                     "127.0.0.1:6379",
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			DisableIdentity:          true,
			MaxRetries:               -1,
			PoolSize:                 1000,
		})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// far is a Redis whose commands take a while: all that ask meanwhile have asked when the
// answer comes.
type far struct{ trip time.Duration }

func (far) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f far) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(f.trip)
		return next(ctx, cmd)
	}
}

func (f far) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(f.trip)
		return next(ctx, cmds)
	}
}

// TestCallsShareTrips proves that goroutines which ask at the same time cost Redis one
// command together, and those that ask for each call one each.
func TestCallsShareTrips(t *testing.T) {
	for _, c := range []struct {
		contender  string
		goroutines int
		most       float64 // commands per call
		least      float64
	}{
		{fleetpaceName, 64, 0.05, 0},
		{contextName, 64, 0.05, 0},
		{fleetpaceName, 4096, 0.0005, 0},
		{contextName, 4096, 0.0005, 0},
		{pingName, 64, 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			const each = 10 // calls of a goroutine
			client := simulatedRedis(t)()
			sent := &counter{}
			client.AddHook(sent)
			client.AddHook(far{time.Millisecond})
			found, _ := contenderNamed(c.contender)
			a, err := found.open(client, plenty("calls"))
			require.NoError(t, err)
			defer a.close()
			require.NoError(t, a.ask(t.Context(), "")) // the script is known now

			sent.commands.Store(0)
			ctx := a.context(t.Context())
			var all sync.WaitGroup
			for range c.goroutines {
				all.Go(func() {
					for range each {
						if err := a.ask(ctx, ""); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			perCall := float64(sent.commands.Load()) / float64(each*c.goroutines)
			t.Logf("%s, %d goroutines: %.5f commands per call", c.contender, c.goroutines, perCall)
			require.Positive(t, perCall)
			require.LessOrEqual(t, perCall, c.most)
			require.GreaterOrEqual(t, perCall, c.least)
		})
	}
}

// TestLeasesGrantNoMoreThanTheLimit proves it for three processes that share a limit by
// leases, with even calls and with bursts that come one after the other.
func TestLeasesGrantNoMoreThanTheLimit(t *testing.T) {
	limit := bucket{name: "leased", interval: 5 * time.Millisecond, burst: 100} // fills in 500 ms, as sharedBucket does
	perSecond := float64(time.Second) / float64(limit.interval)
	for name, load := range map[string]traffic{
		"steady": {shape: steady},
		"bursty": {shape: func(moments []time.Duration, limiter int) []time.Duration {
			return bursts(moments, burstPeriod, burstPart, time.Duration(limiter)*burstPeriod/processes)
		}},
		"more than there is": {shape: steady, perSecond: 2 * perSecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if load.perSecond == 0 {
					load.perSecond = 0.8 * perSecond
				}
				load.limiters = processes
				connect := simulatedRedis(t)
				var limiters []*reserve.Limiter
				for range processes {
					client := connect()
					client.AddHook(far{time.Millisecond})
					l, err := newLimiter(client, limit, sharedLease)
					require.NoError(t, err)
					t.Cleanup(func() { _ = l.Close() })
					limiters = append(limiters, l)
				}
				all, err := load.play(t.Context(), limiters, 2*time.Second)
				require.NoError(t, err)
				moments := make([]time.Duration, len(all))
				for i, a := range all {
					moments[i] = a.at
				}
				leased := int64(0)
				for _, l := range limiters {
					leased += l.LeaseStats().Taken
				}
				t.Logf("%d calls, %d permits taken ahead of them, burst needed %d", len(all), leased, burstNeeded(moments, perSecond))
				require.Positive(t, leased, "there was no lease")
				require.Zero(t, refusals(moments, perSecond, limit.burst), "of a strict bucket of exactly the limit")
			})
		})
	}
}
