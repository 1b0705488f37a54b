package integration

import (
	"fmt"
	"strings"
	"time"
)

// All connections of one worker's pool are held by blocking commands for 6 s,
// longer than a call waits for one of them (4 s by go-redis's defaults).
func poolExhausted(s *faultScene) {
	const seconds = 6
	server := s.single()
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
