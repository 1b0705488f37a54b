// Package embedded runs a Redis inside the process, on a real TCP port, so
// that several processes can share it: for trying things out, for examples and
// for tests. It is miniredis with a clock that runs, and keeps nothing on disk.
//
//	server, err := embedded.Start("") // or at an address, such as "localhost:6379"
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
//
// For simulated time see package reservetest.
package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is how often keys that are due to expire are removed, and about how much too early
// that may be. Miniredis can do so at every command, but then looks through all keys
// each time.
const tick = 100 * time.Millisecond

// Server is an embedded Redis that runs. Make one with [Start], and close it in the end.
// Its methods are safe for concurrent use.
type Server struct {
	redis *miniredis.Miniredis
	stop  context.CancelFunc
	done  chan struct{}
}

// Start starts a server that listens on addr ("host:port"). An empty addr means a free
// port on the loopback interface. The error is that of listening, for example on a port
// that is in use.
func Start(addr string) (*Server, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("embedded: listen on %q: %w", addr, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{redis: m, stop: stop, done: make(chan struct{})}
	go s.expire(ctx)
	return s, nil
}

// expire lets the time of keys pass.
func (s *Server) expire(ctx context.Context) {
	defer close(s.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			passed := passes(last, now)
			s.redis.FastForward(passed)
			last = last.Add(passed)
		}
	}
}

// passes is how much time passes for the keys at a tick. No more than a tick, as keys
// that were made after a stall are not to expire by it; what is left passes later.
func passes(last, now time.Time) time.Duration { return min(now.Sub(last), tick) }

// Addr is the address that clients dial, as "host:port".
func (s *Server) Addr() string { return s.redis.Addr() }

// URL is the address in the form that redis.ParseURL and
// asynq.ParseRedisURI understand.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Close stops the server and forgets everything that it held. It may be called more than
// once.
func (s *Server) Close() {
	s.stop()
	<-s.done
	s.redis.Close()
}
