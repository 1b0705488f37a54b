package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
)

// line is a limit of which the benchmark takes number after number.
type line struct {
	client *redis.Client
	keys   []string
	next   int
}

const far = -100 * 365 * 24 * 3600 * 1_000_000 // a reach that means: nothing is known

// take takes n numbers, which all have to wait, in one call.
func (l *line) take(ctx context.Context, n int) error {
	args := []any{60_000_000, 1, far, 0, 0, 0, "a", 0, 0}
	for range n {
		l.next++
		args = append(args, 1, -1, fmt.Sprintf("0123456789abcdef-%d", l.next), 0)
	}
	return lua.Take.Run(ctx, l.client, l.keys, args...).Err()
}

// takeBesides measures a take on an idle line and on one where a million
// numbers wait, in turns, so that whatever else the machine does touches both.
func takeBesides(t testing.TB, rounds int) (empty, crowded time.Duration) {
	const waiting = 1_000_000
	server := redistest.New(t)
	client, prefix, ctx := server.Client(t), redistest.Prefix(t), context.Background()
	few := func(i int) *line {
		return &line{client: client, keys: lua.Keys(prefix, "bench", fmt.Sprint("idle", i))}
	}
	many := &line{client: client, keys: lua.Keys(prefix, "bench", "crowded")}
	t.Cleanup(func() { _ = client.Unlink(ctx, many.keys...).Err() })
	for range waiting / 1000 {
		require.NoError(t, many.take(ctx, 1000))
	}
	n, err := client.ZCard(ctx, many.keys[1]).Result()
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, int64(waiting-1))

	const batch = 50
	var costs [2][]time.Duration
	for i := range rounds {
		idle := few(i)
		require.NoError(t, idle.take(ctx, 2)) // the first is due at once
		for k, l := range []*line{idle, many} {
			start := time.Now()
			for range batch {
				require.NoError(t, l.take(ctx, 1))
			}
			costs[k] = append(costs[k], time.Since(start)/batch)
		}
		require.NoError(t, client.Unlink(ctx, idle.keys...).Err())
	}
	for k := range costs {
		slices.Sort(costs[k])
	}
	return costs[0][rounds/2], costs[1][rounds/2]
}

// BenchmarkTake shows that the cost of a take does not depend on how many numbers wait.
func BenchmarkTake(b *testing.B) {
	empty, crowded := takeBesides(b, 200)
	b.ReportMetric(float64(empty.Nanoseconds()), "ns/take-0-waiting")
	b.ReportMetric(float64(crowded.Nanoseconds()), "ns/take-1M-waiting")
	b.ReportMetric(float64(crowded)/float64(empty), "ratio")
	b.ReportMetric(0, "ns/op")
}
