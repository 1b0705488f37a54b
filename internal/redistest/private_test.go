package redistest

import (
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A private server comes back at the same address, with what its files hold. No other server gets its port meanwhile.
func TestPrivateServerIsKilledAndStarted(t *testing.T) {
	for _, test := range []struct {
		name, log string
		keys      int64
	}{{"forgets", "no", 0}, {"remembers", "yes", 1}} {
		t.Run(test.name, func(t *testing.T) {
			server := Private(t, PrivateOptions{Args: []string{"--appendonly", test.log}})
			address, ctx := server.Addr(), t.Context()
			require.NoError(t, server.Client(t).Set(ctx, "key", 1, 0).Err())
			server.Kill()
			require.Error(t, server.Client(t).Ping(ctx).Err())
			_, text, err := net.SplitHostPort(address)
			require.NoError(t, err)
			port, err := strconv.Atoi(text)
			require.NoError(t, err)
			require.Error(t, claim(port))
			server.Start()
			require.Equal(t, address, server.Addr())
			n, err := server.Client(t).Exists(ctx, "key").Result()
			require.NoError(t, err)
			require.Equal(t, test.keys, n)
		})
	}
}

// A frozen server keeps its connections and answers nothing.
func TestPrivateServerIsFrozen(t *testing.T) {
	server := Private(t, PrivateOptions{})
	client := server.Client(t)
	require.NoError(t, client.Ping(t.Context()).Err())
	server.Freeze()
	short := client.WithTimeout(50 * time.Millisecond)
	require.ErrorIs(t, short.Ping(t.Context()).Err(), os.ErrDeadlineExceeded)
	server.Thaw()
	require.NoError(t, client.Ping(t.Context()).Err())
}

// A private Sentinel monitors what it is told to. Its directory goes with it.
func TestPrivateSentinel(t *testing.T) {
	var dir string
	t.Run("sentinel", func(t *testing.T) {
		master, sentinel := Private(t, PrivateOptions{}), Private(t, PrivateOptions{Sentinel: true})
		dir = sentinel.Dir
		require.DirExists(t, dir)
		client := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		_, port, err := net.SplitHostPort(master.Addr())
		require.NoError(t, err)
		require.NoError(t, client.Monitor(t.Context(), "api", "127.0.0.1", port, "1").Err())
		address, err := client.GetMasterAddrByName(t.Context(), "api").Result()
		require.NoError(t, err)
		require.Equal(t, []string{"127.0.0.1", port}, address)
	})
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}
