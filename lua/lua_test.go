package lua

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

func TestKeys(t *testing.T) {
	require.Equal(t, []string{"p:{n}:line", "p:{n}:waiting", "p:{n}:free", "p:{n}:claimed"}, Keys("p", "n", ""))
	require.Equal(t, []string{"p:{n}:line:a:{b}", "p:{n}:waiting:a:{b}", "p:{n}:free:a:{b}", "p:{n}:claimed:a:{b}"},
		Keys("p", "n", "a:{b}"), "a key may hold anything")
}

// TestOnTheServersClock runs the scripts as users get them, on the server's own
// clock and with its own expiry. All other tests here bring a clock of theirs.
func TestOnTheServersClock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := context.Background()
		client := patient(t, server)
		keys := Keys(redistest.Prefix(t), "n", "")
		run := func(script *redis.Script, args ...any) []int64 {
			t.Helper()
			reply, err := script.Run(ctx, client, keys, args...).Int64Slice()
			require.NoError(t, err)
			return reply
		}

		// Once an hour: nothing comes due while the test runs.
		hour := time.Hour.Microseconds()
		before := time.Now()
		took := run(Take, hour, 1, -hour, 0, 0, 0, "me", 1, 1e6, 1, -1, "a", 1, 1, -1, "b", 1)
		server0, err := client.Time(ctx).Result()
		require.NoError(t, err)
		require.InDelta(t, server0.UnixMicro(), took[0], float64(time.Since(before).Microseconds()+1000), "the epoch is the server's time")
		require.Equal(t, took[0], took[1], "it was made now")
		require.Equal(t, []int64{0, 1, 0, 0}, took[2:6], "the final ones reach now, one process, no idle permits, no outage")
		require.Equal(t, int64(0), took[6], "one waits, so the line is not plain")
		require.Equal(t, []int64{0, 0, 1, hour, 0, 1}, took[7:HeadLength], "no pause, nothing has moved, of number 1, the limit")
		tickets := took[HeadLength:]
		require.Equal(t, []int64{1, 1, 0}, tickets[:3])
		require.Equal(t, []int64{2, 2, hour}, tickets[3:], "no time passes within a call")

		claimed := run(Claim, hour, 1, 0, 0, 0, 0, "you", 1, 1e6, 1, "b")
		require.Equal(t, took[0], claimed[0], "epoch")
		require.Greater(t, claimed[1], took[1], "the clock")
		require.Equal(t, int64(2), claimed[3], "live")
		ticket := claimed[HeadLength:]
		require.Equal(t, []int64{2, 2}, ticket[:2])
		require.LessOrEqual(t, ticket[2], hour)
		require.Greater(t, ticket[2], hour-time.Since(before).Microseconds()-1000)

		// Full again after the hour of b and one more; then a second.
		left, err := client.PTTL(ctx, keys[0]).Result()
		require.NoError(t, err)
		require.LessOrEqual(t, left, 2*time.Hour+time.Second+time.Millisecond)
		if server.Real() { // the embedded one counts time in ticks, which may come late
			require.Greater(t, left, 2*time.Hour+time.Second-time.Since(before)-time.Millisecond)
		}

		require.Equal(t, []int64{1}, run(Cancel, hour, 1, 0, 0, 0, 0, "me", 2, 1, "b", 0, 0))
		require.Equal(t, []int64{0}, run(Cancel, hour, 1, 0, 0, 0, 0, "me", 3, 1, "b", 0, 0))
		require.ErrorContains(t, Cancel.Run(ctx, client, keys, hour, 1, 0, 0, 0, 0, "me", 2, 1, "b", 0, 0).Err(), "STALE serial")

		charged := run(Charge, hour, 1, 0, took[0], claimed[1], 0, "me", 4, 3, 3, 0, hour, 0, 3)
		require.Len(t, charged, HeadLength)
		require.Equal(t, took[0], charged[0], "epoch")
		require.InDelta(t, 3*hour, charged[2], float64(time.Since(before).Microseconds()+1000), "the final ones reach three hours further")
		state, err := Inspect.Run(ctx, client, keys, hour, 1).Slice()
		require.NoError(t, err)
		require.Equal(t, []any{"tail", int64(1)}, state[:2])

		// Errors as a client gets them.
		require.ErrorContains(t, Take.Run(ctx, client, keys, 0, 1, 0, 0, 0, 0, "", 0, 0, 1, -1, "a", 0).Err(), "BADARG intervalMicros")
		require.NoError(t, client.HSet(ctx, keys[0], "tail", "x").Err())
		require.ErrorContains(t, Inspect.Run(ctx, client, keys, hour, 1).Err(), "BADSTATE tail")
		require.NoError(t, client.Del(ctx, keys...).Err())
		require.NoError(t, client.Set(ctx, keys[0], "text", time.Minute).Err())
		require.ErrorContains(t, Inspect.Run(ctx, client, keys, hour, 1).Err(), "WRONGTYPE")
		require.NoError(t, client.Del(ctx, keys...).Err())
	})
}

// TestExpiry waits until a server has really expired the keys.
func TestExpiry(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := context.Background()
		client := patient(t, server)
		keys := Keys(redistest.Prefix(t), "n", "")
		require.NoError(t, Take.Run(ctx, client, keys, 1000, 2, 0, 0, 0, 0, "", 0, 0, 2, -1, "a", 1, 1, -1, "b", 1).Err())
		require.Eventually(t, func() bool {
			n, err := client.Exists(ctx, keys...).Result()
			return err == nil && n == 0
		}, 20*time.Second, 20*time.Millisecond, "due in 3 ms, full in 5, gone in 1,005")
	})
}
