package integration

import "time"

// pause is between the calls of a goroutine where the policy lets them go, or
// fails them, at once: enough calls to see it, and too few to keep the machine
// from other faults.
const pause = 250 * time.Millisecond

// Redis is away, and calls fail at once instead of waiting.
func outageFail(s *faultScene) {
	s.job.Policy = "fail"
	s.plainOutage(func() { time.Sleep(3 * time.Second) })
	s.close(faultVerdict{lossy: true, obedient: true})
}

// Redis is away, and calls go through without a limit.
func outageOpen(s *faultScene) {
	s.job.Policy = "open"
	s.plainOutage(func() { s.untilAlone(faultWorkers) })
	s.close(faultVerdict{lossy: true, unlimited: true})
}

// plainOutage ends when the workers know of it.
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
