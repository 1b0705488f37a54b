package serve_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/serve"
)

// bubble is a Redis in the simulated time of testing/synctest, with connections in
// memory, and the servers that share it.
type bubble struct {
	t       testing.TB
	redis   *miniredis.Miniredis
	scripts atomic.Int64 // calls that carried one
}

func newBubble(t testing.TB) *bubble {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return &bubble{t: t, redis: m}
}

// limiter is what one process of the fleet has.
func (b *bubble) limiter(limit reserve.Limit, outage reserve.Outage) *reserve.Limiter {
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
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Limit: limit, Outage: outage})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = limiter.Close() })
	return limiter
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

// site is one process that serves: a limited handler, and how many requests reached it.
type site struct {
	http.Handler
	served atomic.Int64
}

func newSite(t testing.TB, limiter *reserve.Limiter, config serve.Config) *site {
	limited, err := serve.Middleware(limiter, config)
	require.NoError(t, err)
	s := new(site)
	s.Handler = limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.served.Add(1) }))
	return s
}

// site is a process of its own, with a limit and no more.
func (b *bubble) site(limit reserve.Limit, config serve.Config) *site {
	return newSite(b.t, b.limiter(limit, reserve.Outage{}), config)
}

// get asks once. The tenant, if any, is a header.
func (s *site) get(ctx context.Context, tenant string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if tenant != "" {
		r.Header.Set("Tenant", tenant)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func retryAfter(t testing.TB, w *httptest.ResponseRecorder) int {
	seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
	assert.NoError(t, err)
	assert.GreaterOrEqual(t, seconds, 1)
	return seconds
}
