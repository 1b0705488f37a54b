package reserve

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// used is a limiter on a Redis of its own that has let a call through.
func used(t *testing.T, limit Limit) (*Limiter, *redis.Client) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = client.Close() })
	l, err := New(client, Config{Name: "api", Limit: limit})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	require.NoError(t, l.Wait(t.Context()))
	return l, client
}

// A waiter that is used again may hold what woke the call before: Allow takes one permit
// nevertheless, and waits for the answer.
func TestAllowMeetsAStaleWake(t *testing.T) {
	const burst = 1000
	l, _ := used(t, PerSecond(5).Burst(burst)) // from here on calls ride

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
