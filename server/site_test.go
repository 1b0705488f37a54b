package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

const file = `
limits:
  - {name: api, limit: 10/s}
  - {name: slow, limit: 1/minute}
  - {name: burst, limit: 10/s burst 20}
  - {name: day, limit: 1000/day quota}
  - {name: hosts, key: "{host}", limit: 1/s}
  - {name: shops, key: "{shop}/{token}", limit: 1/s}
  - {name: tenants, flow: "{tenant}", weights: {acme: 3}, limit: 10/s}
  - {name: slots, limit: 2 at once}
  - {name: loose, limit: 2 at once, outage: open}
  - {name: tokens, limit: 10/s burst 100, settles: true}
  - {name: both-a, group: both, limit: 10/s}
  - {name: both-b, group: both, limit: 5/s}
  - {name: leased, limit: 100/s burst 100, lease: 500ms}
  - {name: quick, limit: 100/s}
  - {name: strict, limit: 10/s, outage: fail}
  - {name: window, limit: 100/minute quota}
  - {name: rate, group: mixed, limit: 100/s}
  - {name: other, group: mixed, limit: 80/s burst 4}
  - {name: ten, group: mixed, limit: 10 at once}
`

// site is a server in simulated time.
type site struct {
	*server.Server
	set *limits.Set
}

func newSite(t testing.TB, b *bubble.Bubble, config server.Config) *site {
	return siteOn(t, b.Client(), config)
}

func siteOn(t testing.TB, client *redis.Client, config server.Config) *site {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	set, err := limits.Load(client, path, reserve.Config{Logger: config.Logger})
	require.NoError(t, err)
	t.Cleanup(func() { _ = set.Close() })
	server, err := server.New(set, config)
	require.NoError(t, err)
	return &site{server, set}
}

// answer is what bodies may hold.
type answer struct {
	Turn     string   `json:"turn"`
	Waited   float64  `json:"waited_ms"`
	Held     float64  `json:"held_ms"`
	Due      float64  `json:"due_ms"`
	Usable   float64  `json:"usable_ms"`
	Lease    float64  `json:"lease_ms"`
	ID       string   `json:"id"`
	Forecast float64  `json:"forecast_ms"`
	Retry    float64  `json:"retry_after_ms"`
	HeldBy   string   `json:"held_by"`
	Allowed  bool     `json:"allowed"`
	Taken    int      `json:"taken"`
	Valid    float64  `json:"valid_ms"`
	After    float64  `json:"retry_after"`
	Left     *int     `json:"remaining"`
	Limit    string   `json:"limit"`
	Field    string   `json:"field"`
	Value    any      `json:"value"`
	Detail   string   `json:"detail"`
	Paused   float64  `json:"paused_ms"`
	Reason   string   `json:"pause_reason"`
	Set      bool     `json:"set"`
	Waiting  int      `json:"waiting"`
	Booked   int      `json:"booked"`
	Stored   float64  `json:"stored"`
	Holders  []any    `json:"holders"`
	Limits   []listed `json:"limits"`
}

type listed struct{ Name, Limit, Key, Flow, Share string }

func body(t testing.TB, w *httptest.ResponseRecorder) (a answer) {
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a), w.Body)
	return a
}

// ms is a duration as bodies tell it.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
