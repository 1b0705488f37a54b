package emulator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// In real time and over real connections a stream arrives whole, compressed, and cut.
func TestRealConnections(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer emulator.Answer
		err    error
		ends   string
	}{
		{"whole", emulator.Answer{Output: 400}, nil, "data: {\"type\":\"message_stop\"}\n\n"},
		{"cut", emulator.Answer{Output: 400, Cut: 0.5}, nil, "}}\n\n"},
		{"broken", emulator.Answer{Output: 400, Cut: 0.5, Reset: true}, io.ErrUnexpectedEOF, ""},
	} {
		for _, zipped := range []bool{false, true} {
			api := newAnthropic(t, emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000, Wire: emulator.Wire{Gzip: zipped, Answer: answers(c.answer)}})
			server := httptest.NewServer(api)
			client := server.Client()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/messages", strings.NewReader(`{"model":"m","stream":true}`))
			require.NoError(t, err)
			response, err := client.Do(r)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.ErrorIs(t, err, c.err, c.name)
			require.NoError(t, response.Body.Close())
			assert.Equal(t, zipped, response.Uncompressed)
			assert.True(t, strings.HasPrefix(string(text), "event: message_start\n"), c.name)
			assert.True(t, strings.HasSuffix(string(text), c.ends), c.name)
			server.Close() // waits for the handler
			assert.Zero(t, api.Report().Open)
		}
	}
}
