package integration

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// Blocking commands hold all connections of one worker's pool, for longer than a call waits for a
// connection.
func poolExhausted(s *faultScene) {
	server := s.single()
	s.job.Redis.URL += "?pool_timeout=1s"
	client := server.Client(s)
	all := client.Options().PoolSize
	s.load()
	s.fault(func() {
		s.workers[0].order("hold all connections")
		held := fmt.Sprintf("blocked_clients:%d\r", all)
		s.within(func() bool { return strings.Contains(client.Info(s.Context(), "clients").Val(), held) },
			"all connections are held")
		time.Sleep(2 * time.Second)
		for i := range all {
			require.NoError(s, client.RPush(s.Context(), heldKey(s.job.Prefix, i), "free").Err())
		}
	})
	s.close(faultVerdict{})
}
