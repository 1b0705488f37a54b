package reserve_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

// bubble is a Redis inside a testing/synctest bubble: time there is simulated,
// so hours of a fleet take milliseconds, and connections are in memory.
type bubble struct {
	t     testing.TB
	redis *miniredis.Miniredis
	cut   atomic.Bool // while set, replies are lost
}

func newBubble(t testing.TB) *bubble {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return &bubble{t: t, redis: m}
}

// cuts loses replies: while it is armed, a connection breaks after the server
// has carried out what it was asked.
type cuts struct {
	net.Conn
	armed *atomic.Bool
}

func (c cuts) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.armed.Load() {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// client is what one process of the fleet has: connections of its own.
func (b *bubble) client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			conn, err := b.redis.Dial()
			return cuts{conn, &b.cut}, err
		},
		// An address that needs no look-up, and none of what the client asks a
		// real server about: both would leave the bubble.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
	})
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// limiter is one process of the fleet.
func (b *bubble) limiter(limit reserve.Limit) *reserve.Limiter {
	l, err := reserve.New(b.client(), reserve.Config{Name: "api", Limit: limit})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}
