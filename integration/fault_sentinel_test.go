package integration

import (
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// The master is killed, and three Sentinels make its replica the master.
func sentinelFailover(s *faultScene) {
	master := redistest.Private(s, redistest.PrivateOptions{})
	replica := replicaOf(s, master)
	s.job.Redis.Sentinels = sentinels(s, master)
	s.load()
	s.fault(func() {
		master.Kill()
		s.promoted(replica)
	})
	// The replica may lack the last turns.
	s.close(faultVerdict{lossy: true})
}

// replicaOf starts a replica and returns when it has the master's data.
func replicaOf(s *faultScene, master *redistest.PrivateServer) *redistest.PrivateServer {
	s.Helper()
	replica := redistest.Private(s, redistest.PrivateOptions{})
	host, port := hostPort(s, master)
	client := replica.Client(s)
	require.NoError(s, master.Client(s).ConfigSet(s.Context(), "repl-diskless-sync-delay", "0").Err())
	require.NoError(s, client.ReplicaOf(s.Context(), host, port).Err())
	s.replicates(client)
	return replica
}

func (s *faultScene) replicates(replica *redis.Client) {
	s.Helper()
	s.within(func() bool {
		return strings.Contains(replica.Info(s.Context(), "replication").Val(), "master_link_status:up")
	}, "the replica has the master's data")
}

// promoted waits until the replica is a master.
func (s *faultScene) promoted(replica *redistest.PrivateServer) {
	s.Helper()
	client := replica.Client(s)
	s.within(func() bool {
		return strings.Contains(client.Info(s.Context(), "replication").Val(), "role:master")
	}, "the replica is the master")
}

// sentinels starts three Sentinels that watch a master and find its replica. It returns their
// addresses.
func sentinels(s *faultScene, master *redistest.PrivateServer) (addresses []string) {
	s.Helper()
	ctx := s.Context()
	host, port := hostPort(s, master)
	var clients []*redis.SentinelClient
	for range 3 {
		server := redistest.Private(s, redistest.PrivateOptions{Sentinel: true})
		client := redis.NewSentinelClient(&redis.Options{Addr: server.Addr()})
		s.Cleanup(func() { _ = client.Close() })
		require.NoError(s, client.Monitor(ctx, "api", host, port, "2").Err())
		require.NoError(s, client.Set(ctx, "api", "down-after-milliseconds", "2000").Err())
		require.NoError(s, client.Set(ctx, "api", "failover-timeout", "5000").Err()) // an election without a winner is repeated
		clients, addresses = append(clients, client), append(addresses, server.Addr())
	}
	s.within(func() bool {
		for _, client := range clients {
			others, err := client.Sentinels(ctx, "api").Result()
			replicas, err2 := client.Replicas(ctx, "api").Result()
			if err != nil || err2 != nil || len(others) != 2 || len(replicas) != 1 {
				return false
			}
		}
		return true
	}, "the Sentinels know each other and the replica")
	return addresses
}

func hostPort(s *faultScene, server *redistest.PrivateServer) (host, port string) {
	s.Helper()
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(s, err)
	return host, port
}

// within waits for a state of servers that may take some seconds.
func (s *faultScene) within(is func() bool, what string) {
	s.Helper()
	require.Eventually(s, is, liveness, 20*time.Millisecond, what)
}
