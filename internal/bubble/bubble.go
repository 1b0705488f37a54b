// Package bubble is a Redis inside the simulated time of testing/synctest, and limits of every
// kind on it. It is for tests.
package bubble

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Bubble is a Redis with connections in memory, and the processes that share it.
type Bubble struct {
	testing.TB
	Redis   *miniredis.Miniredis
	Way     time.Duration // to Redis, and as long back, of connections that are made from now on
	Scripts atomic.Int64  // calls of one, but for heartbeats
	refused atomic.Pointer[redis.Script]
}

// New starts a Redis, which ends with the test.
func New(t testing.TB) *Bubble {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return &Bubble{TB: t, Redis: m}
}

// Client is what one process of a fleet has.
func (b *Bubble) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			dialed, err := b.Redis.Dial()
			if err != nil {
				return nil, err
			}
			way := b.Way
			return delay.Conn(dialed, delay.Way{
				Out: func([]byte) time.Duration { return way }, Back: func() time.Duration { return way },
			}), nil
		},
		// Nothing may leave the bubble: an address that needs no look-up, and none of
		// what a client asks a real server about.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 2000, // a call that waits for a connection shares timers between bubbles
	})
	client.AddHook(hook{b})
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// Limiter makes a limiter, whose name is api unless the Config says otherwise.
func (b *Bubble) Limiter(client *redis.Client, config reserve.Config) *reserve.Limiter {
	b.Helper()
	if config.Name == "" {
		config.Name = "api"
	}
	l, err := reserve.New(client, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l
}

// Joint makes a Joint of limits of one process.
func (b *Bubble) Joint(client *redis.Client, limits ...reserve.Config) *reserve.Joint {
	b.Helper()
	var all []*reserve.Limiter
	for i, config := range limits {
		if config.Name == "" {
			config.Name = fmt.Sprint("limit-", i)
		}
		config.Group = "api"
		all = append(all, b.Limiter(client, config))
	}
	j, err := reserve.All(all...)
	if err != nil {
		b.Fatal(err)
	}
	return j
}

// Refuse lets Redis refuse a script, or none with nil.
func (b *Bubble) Refuse(script *redis.Script) { b.refused.Store(script) }

// hook counts and refuses scripts.
type hook struct{ *Bubble }

// refusal is an error of Redis.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		hash := cmd.Args()[1]
		if hash != lua.Beat.Hash() {
			h.Scripts.Add(1)
		}
		if script := h.refused.Load(); script != nil && hash == script.Hash() {
			cmd.SetErr(refusal("BADSTATE the test refuses this script"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
