package integration

import (
	"fmt"
	"strings"
	"time"
)

// All connections of one worker's pool are held by blocking commands, for longer than a
// call waits for one of them.
func poolExhausted(s *faultScene) {
	const seconds = 2
	server := s.single()
	s.job.Redis.URL += "?pool_timeout=1s"
	client := server.Client(s)
	s.load()
	s.fault(func() {
		s.workers[0].order(seconds)
		held := fmt.Sprintf("blocked_clients:%d\r", client.Options().PoolSize)
		s.within(func() bool { return strings.Contains(client.Info(s.Context(), "clients").Val(), held) },
			"all connections are held")
		time.Sleep(time.Until(s.broken.Add(seconds * time.Second)))
	})
	s.close(faultVerdict{})
}
