package redistest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"

	"github.com/fleetpace/fleetpace/embedded"
)

// The interpreter of the scripts makes much garbage, and keeps little memory. An embedded Redis makes an
// interpreter for each script, and the race detector records all of its memory. Scripts unpack at most 2,000
// values, unless a thousand processes die at once, and call few levels deep: smaller stacks are enough.
func init() {
	debug.SetGCPercent(400)
	lua.RegistrySize, lua.CallStackSize = 2560, 64
}

// Kind says where a Server comes from.
type Kind string

// The kinds of a Server. All but KindMini are real.
const (
	KindURL    Kind = "url"       // a running server, named by FLEETPACE_REDIS_URL
	KindDocker Kind = "docker"    // a container
	KindLocal  Kind = "local"     // a redis-server or valkey-server process on this machine
	KindMini   Kind = "miniredis" // package embedded, inside the test binary
)

// Server is a Redis that answers. It is safe for concurrent use, and valid
// until the test binary ends (a private one: until its test ends).
type Server struct {
	Kind Kind

	url    string
	id     string  // of the container or process
	keeper *keeper // nil for KindURL and KindMini
}

// URL is the server's address in the form of redis.ParseURL and
// asynq.ParseRedisURI, for example to hand it to another process.
func (s *Server) URL() string { return s.url }

// Addr is the server's address as "host:port".
func (s *Server) Addr() string {
	parsed, err := url.Parse(s.url)
	if err != nil {
		return "" // not reached: every url was parsed before it got here
	}
	return parsed.Host
}

// Real reports whether the server is Redis or Valkey, and not miniredis.
func (s *Server) Real() bool { return s.Kind != KindMini }

// Client returns a new client of the server, closed at the end of the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(s.url)
	if err != nil {
		t.Fatalf("redistest: address of the %s server: %v", s.Kind, err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Mini starts an embedded miniredis for this test alone. It only approximates Redis: see the
// package documentation for a real one.
func Mini(t testing.TB) *Server {
	t.Helper()
	mini, err := embedded.Start("")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(mini.Close)
	return &Server{Kind: KindMini, url: mini.URL()}
}

// Each runs the test twice, as subtests named "miniredis" and "redis", for behaviour that must be
// the same on both. The second one gets its server as New does.
func Each(t *testing.T, test func(t *testing.T, server *Server)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { test(t, Mini(t)) })
	t.Run("redis", func(t *testing.T) { test(t, New(t)) })
}

// answering checks that a Redis answers at the address, and returns its name
// and version, such as "redis 7.2.4".
func answering(ctx context.Context, address string) (string, error) {
	info, err := serverInfo(ctx, address)
	if err != nil {
		return "", err
	}
	if version := info["valkey_version"]; version != "" {
		return "valkey " + version, nil
	}
	return "redis " + info["redis_version"], nil
}

// serverInfo returns the fields of INFO server.
func serverInfo(ctx context.Context, address string) (map[string]string, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	// Dial first: if nothing listens yet, a client would spend a second on retries, and log them.
	dialer := net.Dialer{Timeout: 10 * time.Second} // a refused port answers at once
	connection, err := dialer.DialContext(ctx, options.Network, options.Addr)
	if err != nil {
		return nil, err
	}
	_ = connection.Close()

	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	reply, err := client.Info(ctx, "server").Result()
	if err != nil {
		return nil, fmt.Errorf("INFO server: %w", err)
	}
	info := make(map[string]string)
	for line := range strings.Lines(reply) {
		if field, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[field] = value
		}
	}
	return info, nil
}
