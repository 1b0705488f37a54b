// Package redisserver starts a redis-server on a free port, with nothing in it, and leaves nothing
// of it behind, however the program ends.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// ErrMissing says that no redis-server can be started here.
var ErrMissing = errors.New("neither redis-server nor valkey-server is in PATH: install one (apt-get install redis-server, brew install redis)")

// Binary is the path of the program that Start starts.
func Binary() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Server is a redis-server of our own.
type Server struct {
	Address string
	Admin   *redis.Client // of the parent; Stop closes it
	keeper  *child.Process
}

// keeper is a shell that starts the server, and ends it with what it left when its input ends. That
// happens however the parent dies; redis-server alone would outlive it.
const keeper = `trap '' INT; cd "$1"; "$2" --bind 127.0.0.1 --port "$3" --save "" --appendonly no >/dev/null & cat >/dev/null; kill -9 $!; wait; cd /; rm -rf "$1"`

// Start starts a redis-server. Call Stop in the end.
func Start() (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fleetpace-bench-")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the kernel knows a free port
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	_, port, _ := strings.Cut(address, ":")
	_ = listener.Close()
	shell, err := child.StartOther(nil, "sh", "-c", keeper, "sh", dir, binary, port)
	if err != nil {
		return nil, fmt.Errorf("start a Redis: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	s := &Server{Address: address, keeper: shell}
	s.Admin = s.Client()
	began := time.Now()
	for s.Admin.Ping(context.Background()).Err() != nil {
		if time.Since(began) > 10*time.Second {
			s.Stop()
			return nil, fmt.Errorf("start a Redis: it does not answer at %s: %s", address, shell.Said())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s, nil
}

// Client returns a new client of the server.
func (s *Server) Client() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.Address}) }

// Stop ends the server, and removes what it left.
func (s *Server) Stop() {
	_ = s.Admin.Close()
	s.keeper.End()
	_ = s.keeper.Wait() // how it ended does not matter any more
}

// Work is what clients have asked of a server, and for how long scripts took it.
type Work struct{ Scripts, Pings, Micros float64 }

// Work reads the server's own statistics.
func (s *Server) Work(ctx context.Context) (w Work, err error) {
	text, err := s.Admin.Info(ctx, "commandstats").Result()
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		var calls, micros float64
		if n, _ := fmt.Sscanf(rest, "calls=%g,usec=%g,", &calls, &micros); n < 2 {
			continue
		}
		switch name {
		case "cmdstat_evalsha", "cmdstat_eval", "cmdstat_fcall":
			w.Scripts, w.Micros = w.Scripts+calls, w.Micros+micros
		case "cmdstat_ping":
			w.Pings += calls
		}
	}
	return w, err
}

// Less is what was done since.
func (w Work) Less(before Work) Work {
	return Work{w.Scripts - before.Scripts, w.Pings - before.Pings, w.Micros - before.Micros}
}
