package integration

import (
	"syscall"
	"time"
)

// One of four workers is killed.
func workerKilled(s *faultScene) {
	s.single()
	s.load()
	s.fault(func() { s.workers[0].kill() })
	s.close(faultVerdict{})
}

// One of four workers is suspended for longer than turns are granted ahead.
func workerFrozen(s *faultScene) {
	s.single()
	s.load()
	s.fault(func() {
		s.workers[0].signal(syscall.SIGSTOP)
		time.Sleep(2 * time.Second)
		s.workers[0].signal(syscall.SIGCONT)
	})
	s.close(faultVerdict{})
}
