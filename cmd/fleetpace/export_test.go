package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/scrape"
)

// The exporter tells a stop from a pause, and from a limit whose calls need not wait.
func TestExportStopped(t *testing.T) {
	t.Parallel()
	s := newScene(t, redistest.Mini(t))
	paused, stopped, free := s.limiter("paused", "10/s"), s.limiter("stopped", "10/s"), s.limiter("free", "10/s")
	require.NoError(t, free.Wait(t.Context()))
	require.NoError(t, paused.Wait(t.Context()))
	require.NoError(t, stopped.Wait(t.Context()))
	s.known("paused", "stopped", "free")
	require.NoError(t, paused.Pause(t.Context(), time.Hour, ""))
	require.NoError(t, stopped.Stop(t.Context(), time.Time{}, "no credit"))
	provider, handler, err := scrape.New()
	require.NoError(t, err)
	a := &app{errs: io.Discard, fleet: fleet.New(s.client, s.prefix)}
	defer a.fleet.Close()
	require.NoError(t, newGauges(provider.Meter("test"), a))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{`must_wait{fleetpace_limit="paused"} 1`, `must_wait{fleetpace_limit="free"} 0`, `paused{fleetpace_limit="paused"} 1`, `stopped{fleetpace_limit="paused"} 0`, `paused{fleetpace_limit="stopped"} 1`, `stopped{fleetpace_limit="stopped"} 1`} {
		require.Contains(t, w.Body.String(), "fleetpace_fleet_"+line)
	}
}
