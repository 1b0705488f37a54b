package lua

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A heartbeat finds all dead processes of a name, however many there are, and removes them ten minutes later.
func TestBeatFindsManyDeadProcesses(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const many = 9000
		client, prefix := server.Client(t), redistest.Prefix(t)
		limits := BeatKeys(prefix, "g", "api")[2]
		var fields []any
		for k := range many {
			fields = append(fields, fmt.Sprint("dead", k), "10 10/s")
		}
		require.NoError(t, client.HSet(t.Context(), limits, fields...).Err())
		tells(t, client, prefix, "a", startMicros, []string{"api"})
		all, err := client.HGetAll(t.Context(), limits).Result()
		require.NoError(t, err)
		for k := range many {
			require.Equal(t, fmt.Sprintf("- %s", whole(startMicros)), all[fmt.Sprint("dead", k)])
		}
		tells(t, client, prefix, "a", startMicros+660*second, []string{"api"})
		size, err := client.HLen(t.Context(), limits).Result()
		require.NoError(t, err)
		require.Less(t, size, int64(many))
	})
}
