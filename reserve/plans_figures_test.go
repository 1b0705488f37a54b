package reserve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// TestPlansFigures measures what docs/plans.md says of a fleet of four processes, whose customers' plans change
// meanwhile. FLEETPACE_PLANS has the number of customers, and the calls per second, for half a minute and two
// minutes of rest. Without it, few customers call for a second.
func TestPlansFigures(t *testing.T) {
	customers, perSecond, lasts := 200, 200, time.Second
	text := os.Getenv("FLEETPACE_PLANS")
	if text != "" {
		_, err := fmt.Sscan(text, &customers, &perSecond)
		require.NoError(t, err, "FLEETPACE_PLANS must be like \"10000 1000\", got %q", text)
		lasts = 30 * time.Second
	}
	const processes, changes = 4, 100
	server, ctx := redistest.Local(t, "--hz", "10"), context.Background() // of its own: the test counts all keys
	client := server.Client(t)
	versions := make([]atomic.Int64, customers)
	prefix := redistest.Prefix(t)
	var fleet []*reserve.Limiter
	for range processes {
		l, err := reserve.New(server.Client(t), reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(1), LimitOf: func(key string) (reserve.Limit, int64) {
			n, _ := strconv.Atoi(strings.TrimPrefix(key, "customer-"))
			version := versions[n].Load() + 1
			return reserve.PerSecond(float64(5 * version)).Burst(5), version
		}})
		require.NoError(t, err)
		defer func() { _ = l.Close() }()
		require.NoError(t, l.Wait(ctx))
		fleet = append(fleet, l)
	}
	before, usedBefore, commands, cpu := heap(), figure(t, client, "memory", "used_memory"), figure(t, client, "stats", "total_commands_processed"), figure(t, client, "cpu", "used_cpu_user")
	used := make([]atomic.Bool, customers)
	var busy sync.WaitGroup
	var calls, failed atomic.Int64
	begun := time.Now()
	const callers = 64
	for i := range callers {
		busy.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 37))
			for n := 0; ; n++ {
				due := begun.Add(time.Duration(n*callers+i) * time.Second / time.Duration(perSecond))
				if due.Sub(begun) > lasts {
					return
				}
				time.Sleep(time.Until(due))
				c := random.IntN(customers)
				used[c].Store(true)
				if err := fleet[random.IntN(processes)].For("customer-" + strconv.Itoa(c)).Wait(ctx); err != nil {
					failed.Add(1)
				}
				calls.Add(1)
			}
		})
	}
	busy.Go(func() {
		for range int(lasts.Seconds()) {
			for range changes {
				versions[rand.IntN(customers)].Add(1)
			}
			time.Sleep(time.Second)
		}
	})
	busy.Wait()
	took := time.Since(begun).Seconds()
	active := 0
	for i := range used {
		if used[i].Load() {
			active++
		}
	}
	keys, err := client.DBSize(ctx).Result()
	require.NoError(t, err)
	require.Zero(t, failed.Load())
	require.LessOrEqual(t, keys, int64(float64(active)*1.1)+10)
	n := float64(calls.Load())
	t.Logf("%d customers, %d of them active: %.0f calls/s, %.1f MB of heap in each process, %d keys in Redis (%.3f per active customer), %.1f MB, %.2f commands and %.1f µs of Redis per call",
		customers, active, n/took, (heap()-before)/processes, keys, float64(keys)/float64(active), (figure(t, client, "memory", "used_memory")-usedBefore)/1e6,
		(figure(t, client, "stats", "total_commands_processed")-commands)/n, (figure(t, client, "cpu", "used_cpu_user")-cpu)*1e6/n)
	if text == "" {
		return
	}
	time.Sleep(2 * time.Minute)
	keys, err = client.DBSize(ctx).Result()
	require.NoError(t, err)
	t.Logf("two minutes later: %d keys", keys)
	require.Less(t, keys, int64(10))
}

// figure reads a number of INFO.
func figure(t *testing.T, client *redis.Client, section, name string) float64 {
	info, err := client.Info(t.Context(), section).Result()
	require.NoError(t, err)
	_, text, _ := strings.Cut(info, name+":")
	text, _, _ = strings.Cut(text, "\r")
	x, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return x
}
