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

// Server is a Redis in memory, whose clock is that of the bubble: it tells the time by it, and
// keys expire by it. Make one with [New]. It is safe for concurrent use. But wrong arguments end
// the test, and that works only in the goroutine of the test.
type Server struct {
	t     testing.TB
	redis *miniredis.Miniredis

	mu      sync.Mutex
	away    time.Time     // until when
	way     time.Duration // to the server, and as long back
	lose    int           // answers of scripts that are to be lost
	ahead   time.Duration // by how much its clock is before the bubble's
	stepped bool          // its clock has
}

// New starts an empty Server, which ends with the test.
func New(t testing.TB) *Server {
	s := &Server{t: t, redis: miniredis.NewMiniRedis()}
	s.redis.ClockTTL(true)
	t.Cleanup(s.redis.Close)
	return s
}

// Client is a client as one process of a fleet has it: two clients are two processes. It makes
// no connections of TCP, does not retry, and ends with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Dialer: s.dial,
		// Nothing may leave the bubble: an address that needs no look-up, and nothing that a
		// client asks a real server about.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		DialerRetries:            1,
		PoolSize:                 2000, // who waits for a connection shares timers between bubbles
	})
	client.AddHook(replies{s})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// MakeRedisClient is [Server.Client] for asynq: a Server is an asynq.RedisConnOpt. In a bubble a
// server of asynq runs with Run of package worker, or with Start and Shutdown. Its own Run ends
// only by a signal, and nobody sends one.
func (s *Server) MakeRedisClient() any { return s.Client() }

// Limiter makes a limiter on a client of its own, as another process would. The limiter is closed
// at the end of the test. A config that is wrong ends the test.
func (s *Server) Limiter(config reserve.Config) *reserve.Limiter {
	s.t.Helper()
	return s.process("Limiter", config)[0]
}

// Joint makes limiters on one client, as one process would, and their [reserve.Joint]. The configs
// need the same Group, see [reserve.All]. The limiters are closed at the end of the test. A config
// that is wrong ends the test.
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
