package reservetest

import "time"

// Outage lets the server be away for d from now on: each command fails and breaks its
// connection. Its data stays. An Outage of 0 ends the one before. A d below 0 ends the test.
func (s *Server) Outage(d time.Duration) {
	s.t.Helper()
	s.atLeast0("Outage", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = time.Now().Add(d)
}

// Delay lets all that is sent from now on take d to the server, and replies take d back. A d of 0
// ends that. A d below 0 ends the test.
//
// With a delay a process knows the moments of its turns less exactly, as on a real network. So let
// an [API] allow a burst of one more than the limiter.
func (s *Server) Delay(d time.Duration) {
	s.t.Helper()
	s.atLeast0("Delay", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = d
}

// LoseReplies loses the replies of the next n script calls, which are carried out: who asked
// hears that the connection broke. Heartbeats of limiters do not count. An n of 0 ends that, and
// one below 0 ends the test.
func (s *Server) LoseReplies(n int) {
	s.t.Helper()
	if n < 0 {
		s.t.Fatalf("reservetest: LoseReplies: n must be at least 0, got %d", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = n
}

// LoseData empties the server, as a restart of a Redis without persistence does.
func (s *Server) LoseData() { s.redis.FlushAll() }

// StepClock moves the server's clock by d: ahead, or back if d is below 0. The clock goes on from
// there. By as much as it steps ahead keys expire earlier. A step back moves no expiry.
func (s *Server) StepClock(d time.Duration) {
	s.mu.Lock()
	s.stepped, s.ahead = true, s.ahead+d
	s.mu.Unlock()
	s.setClock()
}

// setClock sets the clock of a server whose clock has stepped. The Server must not be locked: its
// connections need it to take what miniredis writes with its own lock held.
func (s *Server) setClock() {
	s.mu.Lock()
	stepped, now := s.stepped, time.Now().Add(s.ahead)
	s.mu.Unlock()
	if stepped {
		s.redis.SetTime(now)
	}
}

func (s *Server) atLeast0(method string, d time.Duration) {
	s.t.Helper()
	if d < 0 {
		s.t.Fatalf("reservetest: %s: d must be at least 0, got %v", method, d)
	}
}

func (s *Server) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.away)
}

func (s *Server) oneWay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.way
}
