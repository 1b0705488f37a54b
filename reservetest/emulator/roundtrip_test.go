package emulator_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// A response without a connection has the status line that one with a connection has.
func TestStatus(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.test/", nil)
	require.NoError(t, err)
	response, err := emulator.RoundTripper(handler).RoundTrip(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	require.Equal(t, "429 Too Many Requests", response.Status)
}
