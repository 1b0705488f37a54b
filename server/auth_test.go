package server_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/server"
)

// Each token of the file has its rights. The file is read again, and a wrong one changes nothing.
func TestTokenFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		write := func(lines string) { require.NoError(t, os.WriteFile(path, []byte(lines), 0o600)) }
		write("# of the workers\nturns old\nturns new # next\n\noperate op\nmetrics prom\noperate both\nturns both\n")
		s := newSite(t, bubble.New(t), server.Config{
			Token: "root", TokenFile: path, Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		})
		status := func(operation, content, token string) int {
			method, path, _ := strings.Cut(operation, " ")
			r := request(t, method, path, content)
			r.Header.Set("Authorization", "Bearer "+token)
			if path == "/metrics" { // openapi.yaml does not have it
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return w.Code
			}
			return do(t, s, r).Code
		}
		operations := maps.Clone(bodies)
		operations["GET /metrics"] = ""
		for operation, content := range operations {
			operates := strings.Contains(operation, "resume") ||
				strings.HasPrefix(operation, "PUT") || strings.HasPrefix(operation, "DELETE")
			either := strings.HasPrefix(operation, "GET /v1/limits") || strings.Contains(operation, "pause")
			public, measures := operation == "GET /v1/openapi.yaml", operation == "GET /metrics"
			for token, may := range map[string]bool{
				"new": public || !operates && !measures, "op": public || operates || either, "prom": public || measures,
				"both": !measures, "root": true,
			} {
				got := status(operation, content, token)
				require.Equal(t, may, got != http.StatusForbidden && got != http.StatusUnauthorized, "%s %s: %d", token, operation, got)
			}
			require.Equal(t, http.StatusUnauthorized, status(operation, content, "turns"))
		}
		limits := func(token string) int { return status("GET /v1/limits", "", token) }
		require.Equal(t, http.StatusOK, limits("old"))
		write("turns new\nturns newer\n")
		time.Sleep(5 * time.Second)
		require.Equal(t, http.StatusUnauthorized, limits("old"))
		require.Equal(t, http.StatusOK, limits("newer"))
		for _, wrong := range []string{"admin new", "turns", "turns a b"} {
			write(wrong)
			time.Sleep(5 * time.Second)
			require.Equal(t, http.StatusOK, limits("newer"), "%q", wrong)
			_, err := server.New(s.set, server.Config{TokenFile: path})
			require.ErrorIs(t, err, server.ErrInvalid)
			require.ErrorContains(t, err, path+":1: must be turns, operate or metrics")
		}
	})
}

// Probes serves the two probes alone, also if the server requires a token.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes := newSite(t, bubble.New(t), server.Config{Token: "root"}).Probes()
		for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/v1/limits": 404, "/metrics": 404} {
			w := httptest.NewRecorder()
			probes.ServeHTTP(w, request(t, http.MethodGet, path, ""))
			require.Equal(t, status, w.Code, path)
		}
	})
}
