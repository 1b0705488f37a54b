package integration

import "time"

// outage is how long a server is away; known is when the workers know it. Three
// calls in a row have failed then, and go-redis dials five times, 100 ms apart,
// before a call fails.
const (
	outage = 5 * time.Second
	known  = 2 * time.Second
)

// Redis is killed and comes back with nothing.
func killedAndEmpty(s *faultScene) {
	server := s.single()
	s.load()
	s.fault(func() {
		server.Kill()
		time.Sleep(outage)
		server.Start()
	})
	// The line is lost: each worker may bring one turn that others know not of.
	s.close(faultVerdict{refused: faultWorkers, away: known})
}

// Redis is killed and comes back with what it wrote to its log of commands.
func killedWithAOF(s *faultScene) {
	server := s.single("--appendonly", "yes", "--appendfsync", "everysec")
	s.load()
	s.fault(func() {
		server.Kill()
		time.Sleep(outage)
		server.Start()
	})
	// The log may lack the last second of the line.
	s.close(faultVerdict{refused: faultWorkers, away: known})
}

// Redis hangs for 5 s. By go-redis's defaults a call gives up after 3 s, so the
// workers wait rather than learn that it is away.
func frozenServer(s *faultScene) {
	server := s.single()
	s.load()
	s.fault(func() {
		server.Freeze()
		time.Sleep(5 * time.Second)
		server.Thaw()
	})
	// The line is as it was.
	s.close(faultVerdict{})
}
