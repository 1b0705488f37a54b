// Package redisserver starts a redis-server on a free port, with nothing in it, and
// leaves nothing of it behind, however the program ends.
package redisserver

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// Server is a redis-server of our own.
type Server struct {
	Address string
	keeper  *child.Process
}

// Start starts a redis-server with further options, such as "--cluster-enabled",
// "yes". The program's roles must hold KeeperRole. Call Stop in the end.
func Start(options ...string) (*Server, error) {
	if _, err := Binary(); err != nil {
		return nil, err
	}
	keeper, err := child.Start(KeeperRole, options)
	if err != nil {
		return nil, fmt.Errorf("start a Redis: %w", err)
	}
	address, err := bufio.NewReader(keeper.Stdout).ReadString('\n')
	s := &Server{Address: strings.TrimSpace(address), keeper: keeper}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("start a Redis: %s", keeper.Said())
	}
	return s, nil
}

// URL is that of the server's first database.
func (s *Server) URL() string { return "redis://" + s.Address + "/0" }

// Client returns a new client of the server.
func (s *Server) Client() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.Address}) }

// Stop ends the server and removes what it left.
func (s *Server) Stop() {
	s.keeper.Stop()
	_ = s.keeper.Wait() // how it ended does not matter any more
}
