package reserve_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// heap is how many megabytes are in use.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// What a process and Redis keep for 10,000 customers with plans is bounded.
func TestPlansNeedLittle(t *testing.T) {
	const customers = 10_000
	client, ctx := redistest.New(t).Client(t), context.Background()
	rows := &plans{rows: map[string]plan{}}
	var names []string
	for i := range customers {
		names = append(names, fmt.Sprint("customer-", i))
		rows.set(names[i], reserve.PerSecond(float64(1+i%50)).Burst(5), time.Now())
	}
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Prefix: redistest.Prefix(t), Limit: reserve.PerSecond(1), LimitOf: rows.limitOf})
	require.NoError(t, err)
	defer func() { _ = limiter.Close() }()
	require.NoError(t, limiter.Wait(ctx))
	keys := func() int64 {
		n, err := client.DBSize(ctx).Result()
		require.NoError(t, err)
		return n
	}
	used := func() int64 {
		var n int64
		info, err := client.Info(ctx, "memory").Result()
		require.NoError(t, err)
		_, _ = fmt.Sscanf(info[len("# Memory\r\n"):], "used_memory:%d", &n)
		return n
	}
	before, keysBefore, usedBefore := heap(), keys(), used()
	for range 2 {
		var all sync.WaitGroup
		for caller := range 64 {
			all.Go(func() {
				for i := caller; i < customers; i += 64 {
					if err := limiter.For(names[i]).Wait(ctx); err != nil {
						panic(err)
					}
				}
			})
		}
		all.Wait()
	}
	megabytes, perCustomer := heap()-before, float64(keys()-keysBefore)/customers
	t.Logf("%.1f MB of heap, %.3f keys and %d bytes of Redis for each customer", megabytes, perCustomer, (used()-usedBefore)/customers)
	require.LessOrEqual(t, megabytes, 15.)
	require.LessOrEqual(t, perCustomer, 1.1)
}

// A process forgets keys that it does not use, however many there are.
func TestManyKeysAreForgotten(t *testing.T) {
	const customers = 45_000 // a process remembers 20,000 at the most
	client, ctx := redistest.New(t).Client(t), context.Background()
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Prefix: redistest.Prefix(t), Limit: reserve.PerSecond(10)})
	require.NoError(t, err)
	defer func() { _ = limiter.Close() }()
	require.NoError(t, limiter.Wait(ctx))
	before := heap()
	var all sync.WaitGroup
	for caller := range 64 {
		all.Go(func() {
			for i := caller; i < customers; i += 64 {
				if err := limiter.For(fmt.Sprint("customer-", i)).Wait(ctx); err != nil {
					panic(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%.1f MB of heap", heap()-before)
	require.LessOrEqual(t, heap()-before, 35.)
}
