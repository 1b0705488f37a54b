package reservetest

import (
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fleetpace/fleetpace/reserve"
)

// Server is a Redis in memory that uses the bubble's clock, also for the expiry of keys. Make one
// with [New]. It is safe for concurrent use. But wrong arguments end the test, which works only in
// the test's own goroutine.
type Server struct {
	t     testing.TB
	redis *miniredis.Miniredis

	mu      sync.Mutex
	away    time.Time     // the server is unreachable until this moment
	way     time.Duration // how long a command takes to the server, and a reply back
	lose    int           // how many more replies of scripts to lose
	ahead   time.Duration // how far its clock is ahead of the bubble's
	stepped bool          // the clock has stepped
}

// New starts an empty Server, which ends with the test.
func New(t testing.TB) *Server {
	s := &Server{t: t, redis: miniredis.NewMiniRedis()}
	s.redis.ClockTTL(true)
	t.Cleanup(s.redis.Close)
	return s
}

// Client returns a new client, as one process of a fleet has it: two clients act as two processes.
// It uses no TCP connections, does not retry, and ends with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: s.dial,
		// Nothing may leave the bubble, so the address needs no look-up, and the client does not
		// ask the server for its identity or for maintenance notifications.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		DialerRetries:            1,
		PoolSize:                 2000, // enough: waits for a connection use timers that bubbles would share
	})
	client.AddHook(replies{s})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// MakeRedisClient is [Server.Client] for asynq: it makes a Server an asynq.RedisConnOpt. In a
// bubble, run a server of asynq with Run of package worker, or with Start and Shutdown. Its own Run
// ends only on a signal.
func (s *Server) MakeRedisClient() any { return s.Client() }

// Limiter makes a limiter on a new client, as another process would. It is closed at the end of the
// test. A wrong config ends the test.
func (s *Server) Limiter(config reserve.Config) *reserve.Limiter {
	s.t.Helper()
	return s.process("Limiter", config)[0]
}

// Joint makes limiters on one new client, as one process would, and returns their [reserve.Joint].
// The configs need the same Group, see [reserve.All]. The limiters are closed at the end of the
// test. A wrong config ends the test.
func (s *Server) Joint(configs ...reserve.Config) *reserve.Joint {
	s.t.Helper()
	joint, err := reserve.All(s.process("Joint", configs...)...)
	if err != nil {
		s.t.Fatal("reservetest: Joint: ", err)
	}
	return joint
}

func (s *Server) process(method string, configs ...reserve.Config) (all []*reserve.Limiter) {
	s.t.Helper()
	client := s.Client()
	for _, config := range configs {
		l, err := reserve.New(client, config)
		if err != nil {
			s.t.Fatalf("reservetest: %s: %v", method, err)
		}
		s.t.Cleanup(func() { _ = l.Close() })
		all = append(all, l)
	}
	return all
}
