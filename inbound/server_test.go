package inbound_test

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
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/reserve"
)

// The same over real connections: of 60 clients as many as the burst pass,
// and of those who may wait, one that hangs up is noticed and leaves the queue.
func TestRealServer(t *testing.T) {
	client, stop := startRedis()
	defer stop()
	limiterOf := func(name string, limit reserve.Limit) *reserve.Limiter {
		limiter, err := reserve.New(client, reserve.Config{Name: name, Limit: limit})
		require.NoError(t, err)
		t.Cleanup(func() { _ = limiter.Close() })
		return limiter
	}
	ended := make(chan error, 1)
	at := func(limiter *reserve.Limiter, config inbound.Config) *httptest.Server {
		limited, err := inbound.Middleware(limiter, config)
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

	// Permits of a quota wait for whoever is slow: those of a full bucket must be used at once.
	server := at(limiterOf("quota", reserve.Quota(10, reserve.CalendarMonth)), inbound.Config{MaxWait: 10 * time.Second})
	var passed, refused atomic.Int64
	var clients errgroup.Group
	clients.SetLimit(10)
	for range 60 {
		clients.Go(func() error {
			code, err := get(t.Context(), server)
			switch code {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
			return err
		})
	}
	require.NoError(t, clients.Wait())
	require.EqualValues(t, 10, passed.Load())
	require.EqualValues(t, 50, refused.Load())
	t.Log("another request ended with", <-ended)

	limiter := limiterOf("slow", reserve.PerHour(2))
	require.NoError(t, limiter.Wait(t.Context()))
	patient := at(limiter, inbound.Config{MaxWait: time.Hour})
	ctx, hangUp := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	waits.Go(func() {
		_, err := get(ctx, patient)
		assert.ErrorIs(t, err, context.Canceled)
	})
	waiting := func() int64 {
		state, err := limiter.State(t.Context())
		require.NoError(t, err)
		return state.Waiting
	}
	require.Eventually(t, func() bool { return waiting() == 1 }, 10*time.Second, 5*time.Millisecond)
	hangUp()
	waits.Wait()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return waiting() == 0 }, 10*time.Second, 5*time.Millisecond)
}
