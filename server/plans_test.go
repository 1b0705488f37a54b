package server_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// A call has the limit of its key's plan, and that of the next file when that is read.
func TestPlansOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.yaml")
		write := func(version, limit string) {
			text := `limits: [{name: api, limit: 1/minute, key: "{customer}", version: ` + version + `, plans: {gold: {limit: ` + limit + `, keys: [acme]}}}]`
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		write("1", "5/minute burst 5")
		logger := slog.New(slog.NewTextHandler(t.Output(), nil))
		set, err := limits.Load(bubble.New(t).Client(), path, reserve.Config{Logger: logger})
		require.NoError(t, err)
		t.Cleanup(func() { _ = set.Close() })
		server, err := server.New(set, server.Config{Logger: logger})
		require.NoError(t, err)
		s := &site{server, set}
		allow := func(customer, cost string) (int, answer) {
			w := post(t, s, "/v1/allow", `{"limits": [{"name": "api", "key": {"customer": "`+customer+`"}, "cost": `+cost+`}]}`)
			return w.Code, body(t, w)
		}
		code, a := allow("acme", "5")
		require.Equal(t, http.StatusOK, code, a)
		require.True(t, a.Allowed)
		require.Equal(t, "5/minute burst 5", a.Limit)
		code, a = allow("acme", "6")
		require.Equal(t, http.StatusBadRequest, code)
		require.Equal(t, "limits[0].cost must be at most 5, the burst of the limit, got 6", a.Detail)
		code, a = allow("globex", "1")
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "1/minute", a.Limit)

		write("2", "100/s burst 50")
		_, err = set.Reload()
		require.NoError(t, err)
		code, a = allow("acme", "6")
		require.Equal(t, http.StatusTooManyRequests, code, "the bucket was empty")
		require.InDelta(t, 0.06, a.After, 0.01)
		time.Sleep(time.Second)
		code, a = allow("acme", "6")
		require.Equal(t, http.StatusOK, code, a)
		require.Equal(t, "100/s burst 50", a.Limit)
	})
}
