package server_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// plenty returns a server on a real Redis, whose limit lets every request through.
func plenty(t testing.TB) *server.Server {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte("limits:\n  - {name: plenty, limit: 1000000/s burst 1000000}\n"), 0o600))
	logger := slog.New(slog.DiscardHandler)
	set, err := limits.Load(redistest.New(t).Client(t), path, reserve.Config{Prefix: redistest.Prefix(t), Logger: logger})
	require.NoError(t, err)
	t.Cleanup(func() { _ = set.Close() })
	server, err := server.New(set, server.Config{Logger: logger})
	require.NoError(t, err)
	return server
}

// socket takes a response, and allocates nothing.
type socket struct {
	header http.Header
	status int
}

func (s *socket) Header() http.Header             { return s.header }
func (s *socket) SetReadDeadline(time.Time) error { return nil }
func (s *socket) WriteHeader(status int)          { s.status = status }
func (s *socket) Write(b []byte) (int, error)     { return len(b), nil }

// requests makes n requests for turns from 64 callers, without what sockets cost.
func requests(n int, h http.Handler) {
	const callers = 64
	body := wants("plenty")
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			ctx, cancel := context.WithCancel(context.Background()) // as net/http has it
			defer cancel()
			var reader strings.Reader
			r := (&http.Request{
				Method: http.MethodPost, URL: &url.URL{Path: "/v1/wait"}, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(&reader), ContentLength: int64(len(body)),
			}).WithContext(ctx)
			w := &socket{header: http.Header{}}
			for range (n + i) / callers {
				reader.Reset(body)
				clear(w.header)
				if h.ServeHTTP(w, r); w.status != http.StatusOK {
					panic(http.StatusText(w.status))
				}
			}
		})
	}
	all.Wait()
}

// A request allocates no more than this beside sockets, with all that the process and go-redis allocate
// meanwhile.
func TestCosts(t *testing.T) {
	s := plenty(t)
	requests(1000, s)
	const n = 5_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	requests(n, s)
	runtime.ReadMemStats(&after)
	allocs, bytes := float64(after.Mallocs-before.Mallocs)/n, float64(after.TotalAlloc-before.TotalAlloc)/n
	t.Logf("%.1f allocations, %.0f bytes", allocs, bytes)
	mostAllocs, mostBytes := 30.0, 3000.0
	if raceDetector {
		mostAllocs, mostBytes = 40, 5000
	}
	require.Less(t, allocs, mostAllocs)
	require.Less(t, bytes, mostBytes)
}

// BenchmarkRequest measures the same.
func BenchmarkRequest(b *testing.B) {
	s := plenty(b)
	requests(1000, s)
	b.ReportAllocs()
	b.ResetTimer()
	requests(b.N, s)
}
