// Package bubble has a Redis in the simulated time of testing/synctest, and limits of every kind on
// it. It is for tests.
package bubble

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/internal/quick"
	_ "github.com/fleetpace/fleetpace/internal/redistest" // collects garbage less often
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// Bubble is a Redis with connections in memory, and the processes that share it.
type Bubble struct {
	testing.TB
	Redis   *quick.Redis
	Way     time.Duration // one-way delay of connections that are made from now on
	Beats   time.Duration // how much later heartbeats are sent
	Scripts atomic.Int64  // script calls so far, except heartbeats
	refused atomic.Pointer[redis.Script]
	dials   sync.RWMutex // locked when the test is over: a client may dial in the background
}

// New starts a Redis, which ends with the test.
func New(t testing.TB) *Bubble {
	m, err := quick.New()
	if err != nil {
		t.Fatal(err)
	}
	b := &Bubble{TB: t, Redis: m}
	t.Cleanup(func() {
		b.dials.Lock()
		m.Close()
	})
	return b
}

// Client returns a new client, as one process of a fleet has it.
func (b *Bubble) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			if !b.dials.TryRLock() { // an error would let the client dial again later, when the bubble is gone
				conn, end := net.Pipe()
				return conn, end.Close()
			}
			defer b.dials.RUnlock()
			dialed, err := b.Redis.Dial()
			if err != nil {
				return nil, err
			}
			way := b.Way
			return delay.Conn(dialed, delay.Way{
				Out: func([]byte) time.Duration { return way }, Back: func() time.Duration { return way },
			}), nil
		},
		// Nothing may leave the bubble, so the address needs no look-up, and the client does
		// not ask the server for its identity or for maintenance notifications.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 2000, // enough: waits for a connection use timers that bubbles would share
	})
	client.AddHook(hook{b})
	b.Cleanup(func() { _ = client.Close() })
	return client
}

// Limiter makes a limiter. Its name is api, unless the Config has another one.
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

// Refuse makes Redis refuse a script. Nil ends that.
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
		if hash == lua.Beat.Hash() {
			time.Sleep(h.Beats)
		} else {
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
