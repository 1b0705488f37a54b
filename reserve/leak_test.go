package reserve_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// heapGrowth is what the heap may grow by from the first hundred cycles to the
// last one: a kilobyte for each of them (of a thousand a quarter of one), where a limiter
// that is kept has several. What the garbage collector leaves differs by some ten kilobytes.
const heapGrowth = 225 << 10

// A process that makes limiters and closes them again keeps nothing of them: no
// goroutine, no connection, no memory; whatever their calls were doing.
func TestNothingIsLeft(t *testing.T) {
	cycles, settledAfter := 300, 100
	if long {
		cycles = 1000
	}
	if raceDetector || testing.Short() {
		cycles, settledAfter = 150, 50
	}
	before := goleak.IgnoreCurrent()
	m := miniredis.NewMiniRedis()
	require.NoError(t, m.Start())
	defer m.Close()
	compileAll(t, m)
	var start uint64
	began := time.Now()
	for i := range cycles {
		if i == settledAfter {
			start = heap()
		}
		cycle(t, m, i)
		m.FlushAll()
	}
	took := time.Since(began)
	end := heap()
	require.Eventually(t, func() bool { return m.CurrentConnectionCount() == 0 }, 10*time.Second, time.Millisecond,
		"the server still has connections")
	made := m.TotalConnectionCount()
	m.Close()
	goleak.VerifyNone(t, before)
	t.Logf("LEAK %d cycles in %v, %d connections, heap %d KiB after %d cycles, %d KiB after %d",
		cycles, took.Round(time.Millisecond), made, start>>10, settledAfter, end>>10, cycles)
	require.Less(t, int64(end)-int64(start), int64(heapGrowth))
}

// compileAll lets miniredis compile all scripts, which it keeps for good. Without
// arguments they reply with an error.
func compileAll(t *testing.T, m *miniredis.Miniredis) {
	client := redis.NewClient(&redis.Options{Addr: m.Addr(), DisableIdentity: true})
	for _, script := range []*redis.Script{lua.Take, lua.Quick, lua.Claim, lua.Cancel, lua.Charge, lua.Inspect} {
		require.Error(t, script.Eval(t.Context(), client, lua.Keys("fleetpace", "api", "")).Err())
	}
	require.NoError(t, client.Close())
}

// heap is the memory in use.
func heap() uint64 {
	for range 3 { // what has a finalizer or lies in a pool goes in the second or third
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cycle is the life of a limiter whose calls are in all states when it ends.
func cycle(t *testing.T, m *miniredis.Miniredis, i int) {
	client := redis.NewClient(&redis.Options{Addr: m.Addr(), PoolSize: 4, DisableIdentity: true, MaxRetries: -1})
	limiter, err := reserve.New(client, withPolicy(reserve.Config{
		Name: "api", Limit: reserve.Every(time.Hour).Burst(2),
	}, []string{"local", "wait", "fail", "open"}[i%4]))
	require.NoError(t, err)
	l := limiter.For(fmt.Sprintf("tenant-%d", i%3))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, l.Wait(ctx))
	used, err := l.ReserveAs(ctx, "used", 1)
	require.NoError(t, err)
	soon, over := context.WithTimeout(ctx, time.Minute) // not an hour, if the permit is gone
	defer over()
	require.NoError(t, used.Wait(soon), "the bucket held a second permit")
	_, err = l.ReserveAs(ctx, "kept", 1)
	require.NoError(t, err)
	ok, err := l.Allow(ctx)
	require.NoError(t, err)
	require.False(t, ok)
	short, stop := context.WithTimeout(ctx, time.Minute)
	require.ErrorIs(t, l.Wait(short), reserve.ErrWouldMissDeadline)
	stop()

	var calls sync.WaitGroup
	waited, err := l.ReserveAs(ctx, "waited", 1)
	require.NoError(t, err)
	calls.Go(func() { require.Error(t, waited.Wait(ctx)) })
	const waiters = 3
	for range waiters {
		calls.Go(func() { require.Error(t, l.Wait(ctx)) })
	}
	gone, leave := context.WithCancel(ctx)
	calls.Go(func() { require.ErrorIs(t, l.Wait(gone), context.Canceled) })
	for all := int64(0); all < waiters+3; {
		s, err := l.State(ctx)
		require.NoError(t, err)
		all = s.Waiting
	}
	leave()

	away := i%5 < 2
	if away {
		m.SetError("LOADING Redis is loading the dataset in memory")
		outage, end := context.WithTimeout(ctx, time.Duration(1+i%4)*time.Millisecond)
		_ = l.Wait(outage) // how it ends is the policy's
		_, _ = l.Reserve(outage)
		end()
	}
	switch i % 3 {
	case 0: // in the middle of everything
	case 1:
		cancel()
		calls.Wait()
	case 2: // without a client to give anything back with
		require.NoError(t, client.Close())
	}
	require.NoError(t, limiter.Close())
	calls.Wait()
	if i%3 != 2 {
		require.NoError(t, client.Close())
	}
	m.SetError("")
}
