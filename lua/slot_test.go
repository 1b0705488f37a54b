package lua

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// All keys of a name are in one slot of a cluster, whatever its limits' keys are, and so are
// all names of a group; the channel is where their news are, too. Every script runs there.
func TestOneSlot(t *testing.T) {
	server := redistest.Local(t, "--cluster-enabled", "yes", "--cluster-port", redistest.Port(t))
	require.NoError(t, server.Client(t).Do(t.Context(), "cluster", "addslotsrange", 0, 16383).Err())
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	require.Eventually(t, func() bool { return client.Set(t.Context(), "any", 1, time.Second).Err() == nil }, time.Minute, 20*time.Millisecond)

	for _, group := range []string{"", "group"} {
		slots := map[int64]bool{}
		add := func(keys ...string) {
			for _, key := range keys {
				slot, err := client.ClusterKeySlot(t.Context(), key).Result()
				require.NoError(t, err)
				slots[slot] = true
			}
		}
		names := []string{"api"}
		if group != "" {
			names = []string{"api", "other", "a b"}
		}
		var keys []string
		for _, name := range names {
			for _, key := range []string{"", "tenant", "{other}", "}{", "a:b"} {
				of := Keys("pre", group, name, "p", key)
				add(of...)
				keys = append(keys, of...)
			}
			add(BeatKeys("pre", group, name)...)
			add(Channel("pre", group, name))
			require.NoError(t, Beat.Run(t.Context(), client, BeatKeys("pre", group, name), "", "p", 1e6, "", 1, Protocol, "p", 1, "1/s", "told").Err())
		}
		require.Len(t, slots, 1, group)

		args := []any{"", 0, 250000, 5000, 300000, "", "p", 1, Channel("pre", group, "api")}
		for range len(keys) / 6 {
			args = append(args, "p", 1e6, 5, 0, "", 0, "", "", "", 0)
		}
		for script, extra := range map[*redis.Script][]any{
			Ask: {1, 1, 0, 1, 1, 1, ""}, Leave: {1, "place", 1, 1}, Settle: {1, "p:1", 1, 1, ""}, Pause: {1000, "told so"},
			Resume: nil, Set: {"", "", 0}, Inspect: nil,
		} {
			require.NoError(t, script.Run(t.Context(), client, keys, append(args, extra...)...).Err())
		}
	}
}
