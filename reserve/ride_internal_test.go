package reserve

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A waiter that is used again may hold what woke the call before: Allow takes one permit
// nevertheless, and waits for the answer.
func TestAllowMeetsAStaleWake(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	const burst = 1000
	l, err := New(client, Config{Name: "api", Limit: PerSecond(5).Burst(burst)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.Wait(t.Context())) // from here on calls ride

	const calls = 100
	for range calls {
		stale := l.core.riders.get(1, l.core.started)
		stale.tell()
		l.core.riders.put(stale)
		allowed, err := l.Allow(t.Context())
		require.NoError(t, err)
		require.True(t, allowed)
	}
	state, err := l.State(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, state.Stored, float64(burst-calls-1)-0.01, "one permit for each call")
}
