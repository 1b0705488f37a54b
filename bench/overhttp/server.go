package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/remote"
	"github.com/fleetpace/fleetpace/reserve"
)

const serverRole = "-server"

// setup is what a server is told.
type setup struct{ Role, Redis string }

func serverMain() int {
	var s setup
	err := child.Told(&s)
	if err == nil {
		err = serve(s.Role, s.Redis)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const file = `
limits:
  - {name: plenty, limit: 1000000/s burst 1000000}
  - {name: leased, limit: 1000000/s burst 1000000, lease: 500ms}
  - {name: waits, limit: 2000/s}
`

// serve is a server until it is stopped.
func serve(role, address string) error {
	client := redis.NewClient(&redis.Options{Addr: address})
	handler := http.Handler(asksRedisRate(client))
	switch role {
	case "redis_rate":
	case "net/http alone":
		handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { allowed(w) })
	default:
		dir, err := os.MkdirTemp("", "overhttp")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		path := filepath.Join(dir, "limits.yaml")
		if err = os.WriteFile(path, []byte(file), 0o600); err != nil {
			return err
		}
		set, err := limits.Load(client, path, reserve.Config{})
		if err != nil {
			return err
		}
		turns, err := remote.New(set, remote.Config{})
		if err != nil {
			return err
		}
		late := new(lateness)
		mux := http.NewServeMux()
		mux.Handle("/", turns)
		mux.Handle("GET /late", late)
		if role == "fleetpace, observed" {
			late.watch()
		}
		handler = mux
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err = json.NewEncoder(os.Stdout).Encode(told{listener.Addr().String(), os.Getpid()}); err != nil {
		return err
	}
	go func() {
		child.UntilStopped()
		_ = listener.Close()
	}()
	if err := http.Serve(listener, handler); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// asksRedisRate is what one writes without a library for it.
func asksRedisRate(client *redis.Client) http.HandlerFunc {
	limiter := redis_rate.NewLimiter(client)
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := limiter.Allow(r.Context(), "plenty", redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: 1e9})
		switch {
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case result.Allowed == 0:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			allowed(w)
		}
	}
}

func allowed(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"allowed":true}`))
}

// server is a process that serves.
type server struct {
	*child.Process
	told
}

// told is what a server tells of itself.
type told struct {
	Address string
	PID     int
}

func start(role, redis string) (*server, error) {
	p, err := child.Start(serverRole, setup{role, redis})
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	if err := json.NewDecoder(p.Stdout).Decode(&s.told); err != nil {
		return nil, fmt.Errorf("the server of %s has ended: %w: %s", role, p.Wait(), p.Said())
	}
	return s, nil
}

func (s *server) end() {
	s.Stop()
	_ = s.Wait()
}
