package serve_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/serve"
)

// The same over real connections: of 60 clients at once as many as the burst pass,
// and of those who may wait, one that hangs up is noticed and leaves the line.
func TestRealServer(t *testing.T) {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "real", Limit: reserve.PerHour(1).Burst(10)})
	require.NoError(t, err)
	defer func() { _ = limiter.Close() }()
	ended := make(chan error, 1)
	at := func(config serve.Config) *httptest.Server {
		limited, err := serve.Middleware(limiter, config)
		require.NoError(t, err)
		handler := limited(hello)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(w, r)
			select {
			case ended <- r.Context().Err():
			default:
			}
		}))
		t.Cleanup(server.Close)
		return server
	}
	get := func(ctx context.Context, server *httptest.Server) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		answer, err := server.Client().Do(r)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		return answer.StatusCode, nil
	}

	server := at(serve.Config{})
	var passed, refused atomic.Int64
	var clients sync.WaitGroup
	for range 60 {
		clients.Go(func() {
			switch code, _ := get(t.Context(), server); code {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
		})
	}
	clients.Wait()
	require.EqualValues(t, 10, passed.Load())
	require.EqualValues(t, 50, refused.Load())
	t.Log("another request ended with", <-ended)

	patient := at(serve.Config{MaxWait: time.Hour})
	ctx, hangUp := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	waits.Go(func() {
		_, err := get(ctx, patient)
		assert.ErrorIs(t, err, context.Canceled)
	})
	line := func() int64 {
		state, err := limiter.State(t.Context())
		require.NoError(t, err)
		return state.Line - state.Free // a number that went back is there for the next
	}
	require.Eventually(t, func() bool { return line() == 1 }, 10*time.Second, 5*time.Millisecond)
	hangUp()
	waits.Wait()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return line() == 0 }, 10*time.Second, 5*time.Millisecond)
}
