package reservetest

import "time"

// Outage makes the server unreachable for d: each command fails and breaks its connection. The
// server keeps its data. A d of 0 ends an outage. A d below 0 ends the test.
func (s *Server) Outage(d time.Duration) {
	s.t.Helper()
	s.atLeast0("Outage", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = time.Now().Add(d)
}

// Delay makes commands take d to reach the server, and replies take d to return, from now on. A d
// of 0 ends that. A d below 0 ends the test.
//
// With a delay, as on a real network, a process knows the moments of its turns less precisely. So
// let an [API] allow a burst of one more than the limiter.
func (s *Server) Delay(d time.Duration) {
	s.t.Helper()
	s.atLeast0("Delay", d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = d
}

// LoseReplies loses the replies of the next n script calls. The server runs them, and the client
// gets a broken connection. Heartbeats of limiters do not count. An n of 0 ends that. An n below 0
// ends the test.
func (s *Server) LoseReplies(n int) {
	s.t.Helper()
	if n < 0 {
		s.t.Fatalf("reservetest: LoseReplies: n must be at least 0, got %d", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = n
}

// LoseData deletes all data, as a restart of a Redis without persistence does.
func (s *Server) LoseData() { s.redis.FlushAll() }

// StepClock moves the server's clock by d: forward, or back if d is below 0. After a step forward,
// keys expire that much earlier. A step back does not change when keys expire.
func (s *Server) StepClock(d time.Duration) {
	s.mu.Lock()
	s.stepped, s.ahead = true, s.ahead+d
	s.mu.Unlock()
	s.setClock()
}

// setClock sets the clock of a server whose clock has stepped. The Server must not be locked here:
// miniredis holds its own lock while it writes to connections, and they lock the Server.
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
