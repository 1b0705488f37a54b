package integration

import "time"

// Redis is killed and comes back with nothing.
func killedAndEmpty(s *faultScene) {
	server := s.single()
	s.load()
	s.fault(func() {
		server.Kill()
		s.untilAlone(faultWorkers)
		server.Start()
	})
	s.close(faultVerdict{lossy: true})
}

// Redis is killed and comes back with what it wrote to its log of commands.
func killedWithAOF(s *faultScene) {
	server := s.single("--appendonly", "yes", "--appendfsync", "everysec")
	s.load()
	s.fault(func() {
		server.Kill()
		s.untilAlone(faultWorkers)
		server.Start()
	})
	// The log may lack the last second of them.
	s.close(faultVerdict{lossy: true})
}

// Redis hangs for longer than a call waits for it, and not for long enough for the workers
// to learn that it is away.
func frozenServer(s *faultScene) {
	server := s.single()
	s.job.Redis.URL += "?read_timeout=1s"
	s.load()
	s.fault(func() {
		server.Freeze()
		time.Sleep(1500 * time.Millisecond)
		server.Thaw()
	})
	// The data is as it was.
	s.close(faultVerdict{})
}
