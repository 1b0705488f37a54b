package integration

import (
	"time"

	"github.com/stretchr/testify/assert"
)

// pause is between the calls of a goroutine where the policy lets them go, or
// fails them, at once: enough calls to see it, and too few to keep the machine
// from other faults.
const pause = 250 * time.Millisecond

// Redis is away, and calls fail at once instead of waiting.
func outageFail(s *faultScene) {
	s.job.Policy = "fail"
	s.plainOutage()
	calls := s.history()
	assert.Empty(s, between(calls, s.broken.Add(known), s.broken.Add(outage)), "calls without a turn")
	// The line is lost: each worker may bring one turn that others know not of.
	s.close(faultVerdict{refused: faultWorkers})
}

// Redis is away, and calls go through without a limit.
func outageOpen(s *faultScene) {
	s.job.Policy = "open"
	s.plainOutage()
	calls := s.history()
	assert.Greater(s, rateBetween(calls, s.broken.Add(known), s.broken.Add(outage)), 2.0*faultRate, "calls per second without a limit")
	// As above.
	s.close(faultVerdict{refused: faultWorkers, unlimited: true})
}

// plainOutage is one of length outage at least: workers may reach the new server before
// Start returns.
func (s *faultScene) plainOutage() {
	s.Helper()
	s.job.Pause = pause
	server := s.single()
	s.load()
	s.fault(func() {
		server.Kill()
		time.Sleep(outage)
		server.Start()
	})
}
