package integration

import "time"

// Redis is killed and restarts without data.
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

// Redis is killed and restarts with the data of its append-only file.
func killedWithAOF(s *faultScene) {
	server := s.single("--appendonly", "yes", "--appendfsync", "everysec")
	s.load()
	s.fault(func() {
		server.Kill()
		s.untilAlone(faultWorkers)
		server.Start()
	})
	// The file may lack the last second of turns.
	s.close(faultVerdict{lossy: true})
}

// Redis hangs for longer than a call waits for it, but not for so long that the workers treat it as
// an outage.
func frozenServer(s *faultScene) {
	server := s.single()
	s.job.Redis.URL += "?read_timeout=1s"
	s.load()
	s.fault(func() {
		server.Freeze()
		time.Sleep(1500 * time.Millisecond)
		server.Thaw()
	})
	// The data is unchanged.
	s.close(faultVerdict{})
}
