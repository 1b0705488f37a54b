package overhttp

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/internal/observe"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	turns "github.com/fleetpace/fleetpace/server"
)

// ServerRole makes the program a server.
const ServerRole = "-http-server"

// setup is what a server is told.
type setup struct{ Name, Redis string }

// told is what a server tells of itself.
type told struct {
	Address string
	PID     int
}

// The servers.
const (
	bareServer = "net/http alone"
	peerServer = "net/http, redis_rate"
	fleetpace  = "fleetpace serve"
	prefetched = "fleetpace serve, prefetch"
	observed   = "fleetpace serve, observed"
)

const file = `
limits:
  - {name: plenty, limit: 1000000/s burst 1000000}
  - {name: prefetched, limit: 1000000/s burst 1000000, prefetch: 500ms}
  - {name: waits, limit: 2000/s}
`

// Server serves until it is stopped.
func Server() error {
	var s setup
	if err := child.Told(&s); err != nil {
		return err
	}
	return s.serve()
}

func (s setup) serve() error {
	client := redis.NewClient(&redis.Options{Addr: s.Redis})
	var handler http.Handler
	switch s.Name {
	case bareServer:
		handler = http.HandlerFunc(allowed)
	case peerServer:
		handler = askRedisRate(client)
	default:
		dir, err := os.MkdirTemp("", "fleetpace-bench-")
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
		if handler, err = turns.New(set, turns.Config{}); err != nil {
			return err
		}
	}
	late := new(lateness)
	if s.Name == observed {
		observe.Turns(late.note)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	child.Tell(told{listener.Addr().String(), os.Getpid()})
	go func() {
		var ignored any
		for child.Told(&ignored) == nil { // asked how late turns were used
			child.Tell(late.percentile99())
		}
		_ = listener.Close()
	}()
	if err := http.Serve(listener, handler); !errors.Is(err, net.ErrClosed) { //nolint:gosec // callers are our own
		return err
	}
	return nil
}

// askRedisRate is what one writes without a library for it.
func askRedisRate(client *redis.Client) http.HandlerFunc {
	limiter := redis_rate.NewLimiter(client)
	return func(w http.ResponseWriter, r *http.Request) {
		result, err := limiter.Allow(r.Context(), "plenty", redis_rate.Limit{Rate: 1_000_000, Burst: 1_000_000, Period: time.Second})
		switch {
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case result.Allowed == 0:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			allowed(w, r)
		}
	}
}

func allowed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"allowed":true}`))
}

// lateness notes how late the turns of this process are used.
type lateness struct {
	mu   sync.Mutex
	late []time.Duration
}

func (l *lateness) note(t observe.Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, t.Late)
}

// percentile99 is that since it was asked last, in milliseconds.
func (l *lateness) percentile99() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.late
	l.late = nil
	if len(late) == 0 {
		return 0
	}
	slices.Sort(late)
	return float64(late[len(late)*99/100].Microseconds()) / 1000
}
