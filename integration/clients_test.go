package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// Each kind of client that is not refused supports everything: all keys of a limit are in one hash
// slot, whatever the limit's key is.
func TestKindsOfClients(t *testing.T) {
	t.Parallel()
	for kind, client := range map[string]func(*testing.T) redis.UniversalClient{
		"single":   func(t *testing.T) redis.UniversalClient { return redistest.New(t).Client(t) },
		"cluster":  cluster,
		"sentinel": sentinel,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			l, err := reserve.New(client(t), reserve.Config{
				Name: "api", Prefix: redistest.Prefix(t), Limit: reserve.Every(time.Hour).Burst(2),
			})
			require.NoError(t, err)
			for _, key := range []string{"tenant", "{other}", "}{", "a b"} {
				l := l.For(key)
				require.NoError(t, l.Wait(ctx))
				r, err := l.Reserve(ctx)
				require.NoError(t, err)
				require.NoError(t, r.Wait(ctx))
				job, err := all(l).Ask(ctx, "job", time.Minute)
				require.NoError(t, err)
				require.True(t, job.Booked(), "its turn is an hour away")
				require.NoError(t, job.Cancel(ctx))
				r, err = l.Reserve(ctx)
				require.NoError(t, err)
				require.False(t, r.Granted())
				require.NoError(t, r.Cancel(ctx))
				short, cancel := context.WithTimeout(ctx, 10*time.Minute)
				require.ErrorIs(t, l.Wait(short), reserve.ErrWouldMissDeadline)
				cancel()
				require.Eventually(t, func() bool { // the call leaves the queue in the background
					s, err := l.State(ctx)
					require.NoError(t, err)
					return s.Waiting+s.Booked == 0 && s.Wait > 50*time.Minute && s.Wait <= time.Hour
				}, liveness, 10*time.Millisecond)
			}
			require.NoError(t, l.Close())
		})
	}
}

func cluster(t *testing.T) redis.UniversalClient {
	server := redistest.Local(t, "--cluster-enabled", "yes", "--cluster-port", redistest.Port(t))
	require.NoError(t, server.Client(t).Do(t.Context(), "cluster", "addslotsrange", 0, 16383).Err())
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	require.Eventually(t, func() bool {
		return client.Set(t.Context(), redistest.Prefix(t), 1, time.Second).Err() == nil
	}, liveness, 50*time.Millisecond, "the cluster is up")
	return client
}

func sentinel(t *testing.T) redis.UniversalClient {
	master := redistest.Local(t)
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	own := redistest.Port(t)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil,
		"bind 127.0.0.1\nport %s\nsentinel monitor api %s %s 1\n", own, host, port), 0o600))
	process := exec.CommandContext(t.Context(), "redis-server", conf, "--sentinel")
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Wait() })
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "api", SentinelAddrs: []string{"127.0.0.1:" + own}})
	t.Cleanup(func() { _ = client.Close() })
	require.Eventually(t, func() bool { return client.Ping(t.Context()).Err() == nil },
		liveness, 50*time.Millisecond, "the sentinel knows the master")
	return client
}
