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
// so hours of a fleet take milliseconds. It is a miniredis, with connections in
// memory, or with FLEETPACE_RESERVE_REDIS=real a real Redis; see realRedis.
type bubble struct {
	t     testing.TB
	redis backend
	cut   atomic.Bool // while set, replies are lost
}

// backend is what tests may do with either Redis, besides calling it.
type backend interface {
	Dial() (net.Conn, error)
	SetError(text string) // that all calls get from now on; "": none
	FlushAll()
	Keys() []string
}

func newBubble(t testing.TB) *bubble {
	if wantsRealRedis() {
		t.Cleanup(realServer.begin())
		return &bubble{t: t, redis: realServer}
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return &bubble{t: t, redis: m}
}

// newHearingBubble is one in which processes hear of turns that move: always a miniredis, as
// simulated time stands still for whoever waits for a message of a real one. (The tests of
// package integration have those.)
func newHearingBubble(t testing.TB) *bubble {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if wantsRealRedis() { // its clients say who they are
		m.RequireUserAuth(limitedUser, limitedPassword)
	}
	t.Cleanup(m.Close)
	return &bubble{t: t, redis: m}
}

// inParallel lets a test that takes long run beside others: it sees simulated time only.
// A real Redis is for one test at a time.
func inParallel(t *testing.T) {
	if !wantsRealRedis() {
		t.Parallel()
	}
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

// client is what one process of the fleet has: connections of its own. On a real
// Redis its user has the documented rules and nothing more.
func (b *bubble) client() *redis.Client {
	c := redis.NewClient(clientOptions(func() (net.Conn, error) {
		conn, err := b.redis.Dial()
		if err != nil {
			return nil, err
		}
		return cuts{conn, &b.cut}, nil
	}))
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

func clientOptions(dial func() (net.Conn, error)) *redis.Options {
	options := &redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return dial() },
		// An address that needs no look-up, and none of what the client asks a
		// real server about: both would leave the bubble.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		// More than any test has calls under way: those that wait for a connection
		// share timers between clients, and so between bubbles.
		PoolSize: 1000,
	}
	if wantsRealRedis() {
		options.Username, options.Password = limitedUser, limitedPassword
	}
	return options
}

// admin may do everything.
func (b *bubble) admin() *redis.Client {
	if wantsRealRedis() {
		return realServer.admin
	}
	return b.client()
}

// limiter is one process of the fleet.
func (b *bubble) limiter(limit reserve.Limit) *reserve.Limiter {
	l, err := reserve.New(b.client(), reserve.Config{Name: "api", Limit: limit})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}
