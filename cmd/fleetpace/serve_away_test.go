package main

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A server that starts while its Redis is away listens, says that it is not ready and why, and goes
// on by the policy of each limit. It is ready when Redis is there. Redis does not answer at all, or
// it is frozen and connections to it stay open.
func TestServeStartsWithoutRedis(t *testing.T) {
	t.Parallel()
	const limits = `limits:
  - {name: open, limit: 1/s, outage: open}
  - {name: local, limit: 100/s, outage: local}
  - {name: fail, limit: 1/s, outage: fail}
  - {name: wait, limit: 1/s, outage: wait}
`
	for name, c := range map[string]struct {
		leave, back func(*redistest.PrivateServer)
	}{
		"away":   {(*redistest.PrivateServer).Kill, (*redistest.PrivateServer).Start},
		"frozen": {(*redistest.PrivateServer).Freeze, (*redistest.PrivateServer).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Private(t, redistest.PrivateOptions{})
			c.leave(redis)
			s := serveTurnsOf(t, redis.Server, redistest.Prefix(t), limits, "127.0.0.1:0", "-poll", "1m")
			client := s.client()
			status, why := get(t, client, "/readyz")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Equal(t, "Redis does not answer\n", why)
			status, _ = get(t, client, "/healthz")
			require.Equal(t, http.StatusOK, status)

			var calls sync.WaitGroup
			for limit, status := range map[string]int{"open": http.StatusOK, "local": http.StatusOK, "fail": http.StatusServiceUnavailable} {
				calls.Go(func() {
					began := time.Now()
					got, _ := ask(t.Context(), client, "/v1/wait", `{"limits":[{"name":"`+limit+`"}]}`)
					assert.Equal(t, status, got, limit)
					t.Logf("MEASURE %s: answered after %v", limit, time.Since(began).Round(time.Millisecond))
				})
			}
			turn := make(chan int, 1)
			go func() {
				status, _ := ask(t.Context(), client, "/v1/wait", `{"limits":[{"name":"wait"}]}`)
				turn <- status
			}()
			select {
			case status := <-turn:
				t.Fatalf("a call that waits for Redis was answered with %d", status)
			case <-time.After(time.Second):
			}
			calls.Wait()
			c.back(redis)
			require.Equal(t, http.StatusOK, <-turn)
			require.Eventually(t, func() bool {
				status, _ := get(t, client, "/readyz")
				return status == http.StatusOK
			}, time.Minute, 50*time.Millisecond)
			status, _ = get(t, client, "/v1/limits/wait") // it is asked of Redis
			require.Equal(t, http.StatusOK, status)
		})
	}
}

// A Redis that refuses the password is no outage: the server says so, and ends.
func TestServeEndsWhereRedisDeniesAccess(t *testing.T) {
	t.Parallel()
	server := redistest.Private(t, redistest.PrivateOptions{})
	require.NoError(t, server.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
	code, _, errs := (&scene{T: t, url: server.URL(), prefix: "x"}).command("", "serve", "-limits", "none.yaml", "-listen", "127.0.0.1:0")
	require.Equal(t, exitAway, code, errs)
	require.Contains(t, errs, "NOAUTH")
}

// get asks a server at a socket or an address.
func get(t *testing.T, client *http.Client, path string) (status int, body string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	require.NoError(t, err)
	w, err := client.Do(r)
	require.NoError(t, err)
	defer func() { _ = w.Body.Close() }()
	text, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return w.StatusCode, string(text)
}
