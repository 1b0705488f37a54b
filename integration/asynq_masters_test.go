package integration

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// threeMasters starts a Redis Cluster and returns the addresses of its nodes.
func threeMasters(t *testing.T) []string {
	t.Helper()
	const masters, slots = 3, 16_384
	ctx := t.Context()
	var nodes []*redis.Client
	var addresses []string
	for i := range masters {
		// By default a node's bus listens 10,000 above its port, which may be above 65,535.
		server := redistest.Local(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "60000", // no node of a busy machine counts as failed
			"--cluster-port", redistest.Port(t))
		node := server.Client(t)
		require.NoError(t, node.Do(ctx, "cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1).Err())
		require.NoError(t, node.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		nodes, addresses = append(nodes, node), append(addresses, server.Addr())
	}
	bus, err := nodes[0].ConfigGet(ctx, "cluster-port").Result()
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(addresses[0])
	require.NoError(t, err)
	for _, node := range nodes[1:] {
		require.NoError(t, node.Do(ctx, "cluster", "meet", host, port, bus["cluster-port"]).Err())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	t.Cleanup(func() { _ = client.Close() })
	require.Eventually(t, func() bool {
		for _, node := range nodes {
			info, err := node.ClusterInfo(ctx).Result()
			if err != nil || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
		}
		var known atomic.Int64
		err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			known.Add(1)
			return node.Ping(ctx).Err()
		})
		return err == nil && known.Load() == masters
	}, liveness, 100*time.Millisecond, "the cluster is up")
	return addresses
}
