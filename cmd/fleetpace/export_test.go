package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/lua"
)

// The exporter tells a stop from a pause, and from a limit whose calls need not wait. It counts the dead.
func TestExportStopped(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	paused, stopped, free := s.limiter("paused", "10/s"), s.limiter("stopped", "10/s"), s.limiter("free", "10/s")
	s.works(free)
	require.NoError(t, paused.Wait(t.Context()))
	require.NoError(t, stopped.Wait(t.Context()))
	s.known("paused", "stopped", "free")
	require.NoError(t, paused.Pause(t.Context(), time.Hour, ""))
	require.NoError(t, stopped.Stop(t.Context(), time.Time{}, "no credit"))
	keys := lua.BeatKeys(s.prefix, "", "free") // a process that died just now
	require.NoError(t, s.client.ZAdd(t.Context(), keys[0], redis.Z{Score: -float64(time.Now().UnixMicro()), Member: "gone"}).Err())
	require.NoError(t, s.client.HSet(t.Context(), keys[2], "gone", "10 10/s").Err())
	provider, handler, err := scrape.New()
	require.NoError(t, err)
	a := &app{errs: io.Discard, fleet: fleet.New(s.client, s.prefix)}
	defer a.fleet.Close()
	require.NoError(t, newGauges(provider.Meter("test"), a))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{`must_wait{fleetpace_limit="paused"} 1`, `must_wait{fleetpace_limit="free"} 0`, `processes_dead{fleetpace_limit="free"} 1`, `processes{fleetpace_limit="free"} 1`, `processes_dead{fleetpace_limit="paused"} 0`, `processes_failing{fleetpace_limit="free"} 0`, `paused{fleetpace_limit="paused"} 1`, `stopped{fleetpace_limit="paused"} 0`, `paused{fleetpace_limit="stopped"} 1`, `stopped{fleetpace_limit="stopped"} 1`} {
		require.Contains(t, w.Body.String(), "fleetpace_fleet_"+line)
	}
}
