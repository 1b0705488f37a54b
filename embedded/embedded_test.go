package embedded_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/embedded"
)

// Clients of several connections share what it holds, and keys expire by
// themselves.
func TestSharedAndExpiring(t *testing.T) {
	server, err := embedded.Start("")
	require.NoError(t, err)
	defer server.Close()
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	require.Equal(t, server.Addr(), options.Addr)

	one, two := redis.NewClient(options), redis.NewClient(options)
	defer func() { _, _ = one.Close(), two.Close() }()
	require.NoError(t, one.Set(t.Context(), "key", "value", 0).Err())
	value, err := two.Get(t.Context(), "key").Result()
	require.NoError(t, err)
	require.Equal(t, "value", value)
	require.NoError(t, one.PExpire(t.Context(), "key", 50*time.Millisecond).Err())
	require.Eventually(t, func() bool { return errors.Is(two.Get(t.Context(), "key").Err(), redis.Nil) },
		10*time.Second, 10*time.Millisecond)
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	server, err := embedded.Start("")
	require.NoError(t, err)
	_, err = embedded.Start(server.Addr())
	require.ErrorContains(t, err, server.Addr())
	server.Close()
	server.Close()
}
