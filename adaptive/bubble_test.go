package adaptive_test

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/reserve"
)

// bubble is a Redis in the simulated time of testing/synctest, with connections in
// memory, and the processes that share it.
type bubble struct {
	t       testing.TB
	redis   *miniredis.Miniredis
	scripts atomic.Int64 // calls that carried one of any limiter or rate
}

func newBubble(t testing.TB) *bubble {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return &bubble{t: t, redis: m}
}

func (b *bubble) client() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return b.redis.Dial() },
		// Nothing may leave the bubble: an address that needs no look-up, and none of
		// what a client asks a real server about.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 1000, // a call that waits for a connection shares timers between bubbles
	})
	client.AddHook(counter{&b.scripts})
	b.t.Cleanup(func() { _ = client.Close() })
	return client
}

// process is one of the fleet.
type process struct {
	*reserve.Limiter
	rate *adaptive.Rate
}

func (b *bubble) process(limit reserve.Limit, config adaptive.Config) process {
	client := b.client()
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Limit: limit})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = limiter.Close() })
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	rate, err := adaptive.New(client, limiter, config)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = rate.Close() })
	return process{limiter, rate}
}

func (b *bubble) fleet(n int, limit reserve.Limit, config adaptive.Config) []process {
	var all []process
	for range n {
		all = append(all, b.process(limit, config))
	}
	return all
}

// refused reports a call that was sent just now, and waits for what comes of it.
func (p process) refused() { p.refusedFor(time.Now()) }

func (p process) refusedFor(sent time.Time) {
	p.rate.Report(sent, true)
	synctest.Wait()
}

// uses reports calls at a rate, for some time.
func (p process) uses(perSecond int, d time.Duration) {
	for range int(d.Seconds() * float64(perSecond)) {
		time.Sleep(time.Second / time.Duration(perSecond))
		p.rate.Report(time.Now(), false)
	}
	synctest.Wait()
}

// now is the rate that is in force.
func (p process) now(t testing.TB) float64 {
	state, err := p.State(t.Context())
	require.NoError(t, err)
	return state.Rate
}

// decisions is how many there were.
func (b *bubble) decisions() int {
	n, err := strconv.Atoi(b.redis.HGet("fleetpace:{api}:adapt", "version"))
	require.NoError(b.t, err)
	return n
}

// counter counts round trips.
type counter struct{ scripts *atomic.Int64 }

func (c counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			c.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
