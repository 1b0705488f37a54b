package integration

import (
	"net"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// The master is killed, and a replica takes over that has received nothing for three seconds. It
// has the places of calls that had their turns since then, and no places of calls that came since
// then.
func sentinelFailoverLags(s *faultScene) {
	const lag = 3 * time.Second
	s.job.Calls = 200
	master := redistest.Private(s, redistest.PrivateOptions{})
	link := s.proxy(master.Addr())
	replica := redistest.Private(s, redistest.PrivateOptions{})
	host, _ := hostPort(s, master)
	_, lags, err := net.SplitHostPort(link.Listen)
	require.NoError(s, err)
	client := replica.Client(s)
	require.NoError(s, master.Client(s).ConfigSet(s.Context(), "repl-diskless-sync-delay", "0").Err())
	require.NoError(s, client.ReplicaOf(s.Context(), host, lags).Err())
	s.replicates(client)
	s.job.Redis.Sentinels = sentinels(s, master)
	s.load()
	link.add("timeout", replies, map[string]int{"timeout": 0})
	time.Sleep(lag)
	s.fault(func() {
		master.Kill()
		s.promoted(replica)
	})
	s.close(faultVerdict{lossy: true})
}
