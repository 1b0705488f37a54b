package reservetest

import "time"

// Outage lets the server be away for d from now on: each command fails and breaks its
// connection. Its data stays. An Outage of 0 ends one. A d below 0 ends the test.
func (s *Server) Outage(d time.Duration) {
	s.t.Helper()
	s.atLeast0("Outage", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = time.Now().Add(d)
}

// Delay lets all that is sent from now on take d to the server, and answers as long back; 0 ends
// that. A d below 0 ends the test.
//
// Turns come as exactly as a process can know them, so let an [API] allow a burst of one more
// than the limiter then, as for a real network.
func (s *Server) Delay(d time.Duration) {
	s.t.Helper()
	s.atLeast0("Delay", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = d
}

// LoseReplies lets the next n script calls be carried out, and their answers be lost: who asked
// hears that the connection broke. Heartbeats of limiters do not count. 0 ends that. An n below
// 0 ends the test.
func (s *Server) LoseReplies(n int) {
	s.t.Helper()
	if n < 0 {
		s.t.Fatalf("reservetest: LoseReplies: n must be at least 0, got %d", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = n
}

// LoseData empties the server, as a restart without a file does.
func (s *Server) LoseData() { s.redis.FlushAll() }

// StepClock moves the server's clock by d, ahead or back. It goes on from there. Keys expire by
// as much earlier as it steps ahead.
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
