package reserve_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/delay"
	"github.com/fleetpace/fleetpace/internal/quick"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// bubble is a Redis inside a testing/synctest bubble, where time is simulated. Processes of
// a fleet reach it through connections in memory, a millisecond away.
type bubble struct {
	testing.TB
	mini *quick.Redis
	cut  atomic.Bool  // while set, replies are lost
	dead atomic.Bool  // while set, replies never come
	asks atomic.Int64 // commands
	left atomic.Int64 // scripts in which places and turns are left
	way  atomic.Int64 // to it and back, each, in nanos

	late atomic.Pointer[func() time.Duration] // by how much a reply is late; nil: none is
}

func newBubble(t testing.TB) *bubble {
	m, err := quick.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	b := &bubble{TB: t, mini: m}
	b.way.Store(int64(way))
	return b
}

const way = time.Millisecond

// delay lets replies be late from now on.
func (b *bubble) delay(late func() time.Duration) { b.late.Store(&late) }

func (b *bubble) dial() (net.Conn, error) {
	dialed, err := b.mini.Dial()
	if err != nil {
		return nil, err
	}
	return delay.Conn(dialed, delay.Way{
		Out: func([]byte) time.Duration {
			b.asks.Add(1)
			return time.Duration(b.way.Load())
		},
		Back: func() time.Duration {
			back := time.Duration(b.way.Load())
			if late := b.late.Load(); late != nil {
				back += (*late)()
			}
			return back
		},
		Lost: b.cut.Load,
		Dead: b.dead.Load,
	}), nil
}

// client is what one process of the fleet has: connections of its own.
func (b *bubble) client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return b.dial() },
		// An address that needs no look-up, and none of what the client asks a
		// real server about: both would leave the bubble.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 1000,
	})
	c.AddHook(leaves{b})
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// leaves counts scripts in which places and turns are left.
type leaves struct{ *bubble }

func (leaves) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l leaves) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && cmd.Args()[1] == lua.Leave.Hash() {
			l.left.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (leaves) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// with is one process of the fleet.
func (b *bubble) with(config reserve.Config) *reserve.Limiter {
	return b.on(b.client(), config)
}

func (b *bubble) on(client redis.UniversalClient, config reserve.Config) *reserve.Limiter {
	if config.Name == "" {
		config.Name = "api"
	}
	l, err := reserve.New(client, config)
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func (b *bubble) limiter(limit reserve.Limit) *reserve.Limiter {
	return b.with(reserve.Config{Limit: limit})
}

// group makes limiters of one process, of one group.
func (b *bubble) group(limits ...reserve.Limit) []*reserve.Limiter {
	client := b.client()
	var all []*reserve.Limiter
	for i, limit := range limits {
		all = append(all, b.on(client, reserve.Config{Name: fmt.Sprint("limit-", i), Group: "api", Limit: limit}))
	}
	return all
}

func joint(t testing.TB, limits ...*reserve.Limiter) *reserve.Joint {
	t.Helper()
	j, err := reserve.All(limits...)
	require.NoError(t, err)
	return j
}

// log is the calls that a fleet has made, in order.
type log struct {
	begun time.Time
	mu    sync.Mutex
	calls []call
	busy  sync.WaitGroup
}

type call struct {
	after time.Duration // since the log was begun
	cost  int
	who   int
}

func newLog() *log { return &log{begun: time.Now()} }

func (l *log) now() time.Duration { return time.Since(l.begun) }

// wait lets a call wait, and notes when it was made. Those that are called one after the other
// wait in that order.
func (l *log) wait(t testing.TB, cost, who int, wait func(context.Context) error) {
	l.busy.Go(func() {
		if err := wait(context.Background()); err != nil {
			t.Errorf("call %d: %v", who, err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls = append(l.calls, call{l.now(), cost, who})
	})
	time.Sleep(time.Microsecond)
}

func (l *log) between(from, to time.Duration) (calls []call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.after >= from && c.after < to {
			calls = append(calls, c)
		}
	}
	return calls
}

// all waits until all calls were made.
func (l *log) all() []call {
	l.busy.Wait()
	return slices.Clone(l.calls)
}

// state is how a limit stands.
func state(t testing.TB, l *reserve.Limiter) reserve.State {
	t.Helper()
	s, err := l.State(context.Background())
	require.NoError(t, err)
	return s
}

func allowed(t testing.TB, l *reserve.Limiter, n int) bool {
	t.Helper()
	ok, err := l.AllowN(context.Background(), n)
	require.NoError(t, err)
	return ok
}
