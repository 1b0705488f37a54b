// Package embedded runs a Redis inside the process, on a real TCP port, so
// that several processes can share it: for trying things out, for examples and
// for tests. It is miniredis with a clock that runs; it keeps nothing on disk.
package embedded

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// Server is a running embedded Redis. Its methods are safe for concurrent use.
type Server struct {
	redis *miniredis.Miniredis
}

// Start listens on addr ("host:port"); an empty addr means a free port on the
// loopback interface.
func Start(addr string) (*Server, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("embedded: listen on %q: %w", addr, err)
	}
	return &Server{redis: m}, nil
}

// Addr is the address that clients dial, as "host:port".
func (s *Server) Addr() string { return s.redis.Addr() }

// URL is the address in the form that redis.ParseURL and
// asynq.ParseRedisURI understand.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Close stops the server and forgets everything that it held. Closing twice
// does no harm.
func (s *Server) Close() { s.redis.Close() }
