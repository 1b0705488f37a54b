package reserve_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

const loading = "LOADING Redis is loading the dataset in memory"

// While Redis is away, processes that called it before go on at 0.9 of the rate together.
func TestLocalPolicy(t *testing.T) {
	each(t, func(t *testing.T, b *bubble, k kind) {
		f := newLog()
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for p := range 3 {
			l := b.limiter(k.limit)
			busy.Go(func() {
				for ctx.Err() == nil {
					if l.Wait(ctx) == nil {
						f.mu.Lock()
						f.calls = append(f.calls, call{f.now(), 1, p})
						f.mu.Unlock()
					}
				}
			})
		}
		time.Sleep(70 * time.Second)
		b.mini.SetError(loading)
		time.Sleep(70 * time.Second) // calls that wait find out when they ask
		from := f.now()
		time.Sleep(2 * time.Minute)
		to := f.now()
		b.mini.SetError("")
		time.Sleep(2 * time.Minute)
		cancel()
		busy.Wait()
		rate := k.limit.Rate()
		assert.InDelta(t, 0.9*rate*120, len(f.between(from, to)), 0.05*rate*120+3)
		assert.GreaterOrEqual(t, float64(len(f.between(to, to+2*time.Minute))), 0.9*rate*120)
	})
}

// Where Redis does not refuse, but never answers, each look for it takes as long as the client's
// timeouts do. Calls go on at their share meanwhile.
func TestLocalPolicyBesideAFrozenRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(100).Burst(5))
		f := newLog()
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		for range 20 {
			busy.Go(func() {
				for l.Wait(ctx) == nil {
					f.mu.Lock()
					f.calls = append(f.calls, call{f.now(), 1, 0})
					f.mu.Unlock()
				}
			})
		}
		time.Sleep(5 * time.Second)
		b.dead.Store(true)
		time.Sleep(30 * time.Second) // three failures, of some seconds each
		from := f.now()
		time.Sleep(30 * time.Second)
		to := f.now()
		b.dead.Store(false)
		time.Sleep(20 * time.Second)
		cancel()
		busy.Wait()
		require.InDelta(t, 0.9*100*30, len(f.between(from, to)), 0.03*100*30)
		end := f.now()
		require.InDelta(t, 100*10, len(f.between(end-10*time.Second, end)), 30)
	})
}

// A process that never reached Redis uses its configured share.
func TestShareOfAProcessThatKnowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		b.mini.SetError(loading)
		l := b.with(reserve.Config{Limit: reserve.PerSecond(100), Outage: reserve.Outage{FallbackFraction: 0.2}})
		require.NoError(t, l.Wait(t.Context()))
		start := time.Now()
		for range 40 {
			require.NoError(t, l.Wait(t.Context()))
		}
		assert.InDelta(t, 2*time.Second, time.Since(start), float64(100*time.Millisecond))
	})
}

// Under wait nobody calls until Redis is back; then all go on, in order.
func TestWaitPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Limit: reserve.PerSecond(10), Outage: reserve.Outage{Policy: reserve.PolicyWait}})
		require.NoError(t, l.Wait(t.Context()))
		time.Sleep(5 * time.Second)
		b.mini.SetError(loading)
		f := newLog()
		for i := range 10 {
			f.wait(t, 1, i, l.Wait)
		}
		time.Sleep(20 * time.Second)
		assert.Empty(t, f.between(0, time.Hour))
		b.mini.SetError("")
		for i, c := range f.all() {
			assert.Equal(t, i, c.who)
		}
		assert.LessOrEqual(t, f.now(), 23*time.Second)
	})
}

// Under fail a call is tried until the breaker opens, and then not even that.
func TestFailPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Limit: reserve.PerSecond(10), Outage: reserve.Outage{Policy: reserve.PolicyFail}})
		require.NoError(t, l.Wait(t.Context()))
		b.mini.SetError(loading)
		start := time.Now()
		err := l.Wait(t.Context())
		require.ErrorIs(t, err, reserve.ErrUnavailable)
		assert.ErrorContains(t, err, "LOADING", "the cause")
		var e *reserve.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "wait", e.Op)
		assert.LessOrEqual(t, time.Since(start), 2*time.Second)
		start = time.Now()
		_, err = l.Allow(t.Context())
		require.ErrorIs(t, err, reserve.ErrUnavailable)
		assert.LessOrEqual(t, time.Since(start), 60*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Wait(ctx), context.Canceled)
		b.mini.SetError("")
		time.Sleep(2 * time.Second)
		require.NoError(t, l.Wait(t.Context()))
	})
}

// Under open all calls go through.
func TestOpenPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.with(reserve.Config{Limit: reserve.PerHour(1), Outage: reserve.Outage{Policy: reserve.PolicyOpen}})
		require.NoError(t, l.Wait(t.Context()))
		b.mini.SetError(loading)
		start := time.Now()
		for range 50 {
			require.NoError(t, l.Wait(t.Context()))
		}
		assert.LessOrEqual(t, time.Since(start), 3*time.Second)
		b.mini.SetError("")
		time.Sleep(2 * time.Second)
		assert.LessOrEqual(t, state(t, l).Wait, 2*time.Hour, "it does not make up for what no API has let through")
	})
}

// A client that was closed, or was never let in, is no outage.
func TestHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		client := b.client()
		l := b.on(client, reserve.Config{Limit: reserve.PerSecond(1)})
		require.NoError(t, client.Close())
		err := l.Wait(t.Context())
		require.ErrorIs(t, err, reserve.ErrUnavailable)
		require.ErrorIs(t, err, redis.ErrClosed)
		b.mini.RequireAuth("secret")
		require.ErrorIs(t, b.limiter(reserve.PerSecond(1)).Wait(t.Context()), reserve.ErrDenied)
	})
}

// While Redis is away a process that is told to pause does so by itself.
func TestPauseWhileRedisIsAway(t *testing.T) {
	for _, limit := range []reserve.Limit{reserve.PerSecond(10), reserve.Rolling(10, time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t)
			l := b.limiter(limit)
			require.NoError(t, l.Wait(t.Context()))
			b.mini.SetError(loading)
			for range 5 { // until the breaker opens
				require.NoError(t, l.Wait(t.Context()))
			}
			require.ErrorIs(t, l.Pause(t.Context(), 5*time.Second, ""), reserve.ErrUnavailable)
			start := time.Now()
			require.NoError(t, l.Wait(t.Context()))
			assert.InDelta(t, 5*time.Second, time.Since(start), float64(300*time.Millisecond))
		})
	}
}

// An operator hears of an outage as it begins and as it ends, with what was used meanwhile, however many calls it concerns.
func TestOutageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		var text bytes.Buffer
		var mu sync.Mutex
		l := b.with(reserve.Config{Limit: reserve.PerSecond(10), Logger: slog.New(slog.NewTextHandler(locked{&mu, &text}, nil))})
		require.NoError(t, l.Wait(t.Context()))
		b.mini.SetError(loading)
		for range 20 {
			require.NoError(t, l.Wait(t.Context()))
		}
		b.mini.SetError("")
		time.Sleep(2 * time.Second)
		require.NoError(t, l.Wait(t.Context()))
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 3, bytes.Count(text.Bytes(), []byte("\n")), text.String())
		assert.Contains(t, text.String(), "Redis unreachable; the outage policy is in effect")
		assert.Contains(t, text.String(), "limit=api policy=local")
		assert.Contains(t, text.String(), "Redis reachable again")
		assert.Contains(t, text.String(), "permits used without Redis were charged to the limit\" limit=api permits=20")
	})
}

// locked is a writer for several goroutines.
type locked struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

func TestParsePolicy(t *testing.T) {
	for _, name := range []string{"local", "wait", "fail", "open"} {
		p, err := reserve.ParsePolicy(name)
		require.NoError(t, err)
		text, err := p.MarshalText()
		require.NoError(t, err)
		var again reserve.Policy
		require.NoError(t, again.UnmarshalText(text))
		assert.Equal(t, p, again)
	}
	_, err := reserve.ParsePolicy("pray")
	require.ErrorIs(t, err, reserve.ErrInvalid)
	require.ErrorContains(t, err, "pray")
}

// While Redis is away, Allow does not wait for the process's share.
func TestAllowWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		l := b.limiter(reserve.PerSecond(1))
		require.NoError(t, l.Wait(t.Context()))
		time.Sleep(2 * time.Second) // by then, it knows how many processes there are
		b.mini.SetError(loading)
		for range 3 {
			require.NoError(t, l.Wait(t.Context()))
		}
		start := time.Now()
		assert.False(t, allowed(t, l, 1))
		assert.LessOrEqual(t, time.Since(start), 10*time.Millisecond)
		time.Sleep(2 * time.Second)
		assert.True(t, allowed(t, l, 1))
	})
}
