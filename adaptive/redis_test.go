package adaptive_test

import (
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// The scripts on a real Redis, as a user who has the documented rules and no more, and at
// once with connections of their own.
func TestRealRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		prefix := redistest.Prefix(t)
		options, err := redis.ParseURL(server.URL())
		require.NoError(t, err)
		if server.Real() {
			admin := server.Client(t)
			require.NoError(t, admin.Do(t.Context(), rules(prefix)...).Err())
			defer admin.Do(t.Context(), "ACL", "DELUSER", prefix)
			options.Username, options.Password = prefix, "secret"
		}
		var fleet []process
		for range 4 {
			client := redis.NewClient(options)
			defer client.Close()
			limiter, err := reserve.New(client, reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(100)})
			require.NoError(t, err)
			defer limiter.Close()
			rate, err := adaptive.New(client, limiter, adaptive.Config{
				Prefix: prefix, Settle: 200 * time.Millisecond, Every: 2 * time.Second, Increase: 3,
				Ceiling: reserve.PerSecond(200), Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			defer rate.Close()
			fleet = append(fleet, process{Limiter: limiter, rate: rate})
		}
		sent := time.Now()
		var together sync.WaitGroup
		for _, p := range fleet {
			for range 10 {
				together.Go(func() { p.rate.Report(sent, true) })
			}
		}
		together.Wait()
		require.Eventually(t, func() bool { return fleet[0].now(t) < 100 }, 10*time.Second, time.Millisecond)
		require.InDelta(t, 70, fleet[0].now(t), near)
		require.Eventually(t, func() bool {
			for range 20 {
				fleet[1].rate.Report(time.Now(), false)
			}
			return fleet[0].now(t) > 70
		}, 30*time.Second, 10*time.Millisecond)
		require.InDelta(t, 0, math.Remainder(fleet[0].now(t)-70, 3), near, "in whole steps")
	})
}

// rules make a user of that name and prefix.
func rules(prefix string) []any {
	all := []any{"ACL", "SETUSER", prefix, "on", ">secret"}
	for _, rule := range strings.Fields(lua.ACL(prefix) + " " + lua.ACLNews(prefix)) {
		all = append(all, rule)
	}
	return all
}
