package integration

import "time"

// pause is the time between a goroutine's calls, where the policy fails them or lets them through at
// once. It allows enough calls to see that, but not so many that they slow the machine down.
const pause = 250 * time.Millisecond

// Redis is unreachable, and calls fail at once.
func outageFail(s *faultScene) {
	s.job.Policy = "fail"
	s.plainOutage(func() { time.Sleep(3 * time.Second) })
	s.close(faultVerdict{lossy: true, obedient: true})
}

// Redis is unreachable, and calls go through without a limit.
func outageOpen(s *faultScene) {
	s.job.Policy = "open"
	s.plainOutage(func() { s.untilAlone(faultWorkers) })
	s.close(faultVerdict{lossy: true, unlimited: true})
}

// plainOutage is an outage that lasts until the workers know of it.
func (s *faultScene) plainOutage(known func()) {
	s.Helper()
	s.job.Pause = pause
	server := s.single()
	s.load()
	s.fault(func() {
		server.Kill()
		known()
		server.Start()
	})
}
