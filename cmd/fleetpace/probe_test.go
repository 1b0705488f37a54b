//go:build clients

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// A call of each hook probes a hard stop through a server. A failure within its response leaves the stop, and a success
// ends it.
func TestHooksEndAHardStop(t *testing.T) {
	root, err := filepath.Abs("../../clients")
	require.NoError(t, err)
	dist := filepath.Join(root, "typescript", "dist")
	require.NoError(t, exists(filepath.Join(dist, "fetch.js")), "the TypeScript client, built with npm run build")
	server, prefix := redistest.New(t), redistest.Prefix(t)
	s := serveTurnsOf(t, server, prefix, "limits:\n  - {name: api, limit: 10/s}\n", "127.0.0.1:0")
	client := server.Client(t)
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(10)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	var calls atomic.Int64
	for name, args := range map[string][]string{"python3": {"testdata/probe.py"}, "node": {"testdata/probe.mjs", dist}} {
		require.NoError(t, limiter.Stop(t.Context(), time.Time{}, "no credit"))
		for _, c := range []struct {
			body    string
			stopped bool
		}{{`{"type":"error","error":{"type":"overloaded_error"}}`, true}, {`{"type":"message_stop"}`, false}} {
			// Five minutes later a call may probe.
			require.NoError(t, client.HSet(t.Context(), lua.Keys(prefix, "", "api", "p", "")[0], "reason", "hard stop 1 - no credit").Err())
			before := calls.Load()
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: "+c.body+"\n\n")
			}))
			cmd := exec.CommandContext(t.Context(), name, append(args, s.address, api.URL)...) //nolint:gosec // a worker of this test
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "python", "src"))
			out, err := cmd.CombinedOutput()
			api.Close()
			require.NoError(t, err, "%s", out)
			require.EqualValues(t, 1, calls.Load()-before)
			state, err := limiter.State(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.stopped, state.Stopped, "%s: %s", name, c.body)
		}
	}
}

// The hooks pass refusals on. After a pause the SDK repeats its call in the queue, and no call that cannot succeed.
func TestHooksPassRefusalsOn(t *testing.T) {
	root, err := filepath.Abs("../../clients")
	require.NoError(t, err)
	dist := filepath.Join(root, "typescript", "dist")
	require.NoError(t, exists(filepath.Join(dist, "fetch.js")), "the TypeScript client, built with npm run build")
	server, prefix := redistest.New(t), redistest.Prefix(t)
	s := serveTurnsOf(t, server, prefix, "limits:\n  - {name: api, limit: 10/s}\n", "127.0.0.1:0")
	limiter, err := reserve.New(server.Client(t), reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(10)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	for name, args := range map[string][]string{"python3": {"testdata/refused.py"}, "node": {"testdata/refused.mjs", dist}} {
		for _, c := range []struct {
			status    int
			body      string
			calls     int64
			last      string
			isStopped bool
		}{
			{http.StatusTooManyRequests, `{"type":"error","error":{"type":"rate_limit_error","message":"input tokens"}}`, 2, "200\n", false},
			{http.StatusBadRequest, `{"type":"error","error":{"type":"invalid_request_error"}}`, 1, "400\n", false},
			{http.StatusPaymentRequired, `{"type":"error","error":{"type":"billing_error"}}`, 1, "402\n", true},
		} {
			var calls atomic.Int64
			var first, last time.Time
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				last = time.Now()
				w.Header().Set("Content-Type", "application/json")
				if calls.Add(1) > 1 {
					_, _ = io.WriteString(w, `{"type":"message","content":[]}`)
					return
				}
				first = last
				if c.status == http.StatusTooManyRequests {
					w.Header().Set("Retry-After", "2")
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			cmd := exec.CommandContext(t.Context(), name, append(args, s.address, api.URL)...) //nolint:gosec // a worker of this test
			cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "python", "src"))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			api.Close()
			require.NoError(t, err, "%s", out)
			require.Equal(t, c.last, string(out), name)
			require.Equal(t, c.calls, calls.Load(), "%s after %d", name, c.status)
			if c.calls > 1 {
				require.GreaterOrEqual(t, last.Sub(first), 2*time.Second-100*time.Millisecond)
			}
			state, err := limiter.State(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.isStopped, state.Stopped, "%s after %d", name, c.status)
		}
		require.NoError(t, limiter.Resume(t.Context()))
	}
}
