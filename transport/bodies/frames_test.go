package bodies_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// A stream of Bedrock states its use, its end and its failures, however its bytes come.
func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		answer emulator.Answer
		usage  bodies.Usage
		class  bodies.Class
	}{
		"whole":    {emulator.Answer{}, bodies.Usage{Input: 500, CacheRead: 70, Output: 200, Known: true, Complete: true}, bodies.None},
		"cut":      {emulator.Answer{Cut: 0.5}, bodies.Usage{Output: 100}, bodies.None},
		"throttle": {emulator.Answer{Cut: 0.5, Error: "throttlingException"}, bodies.Usage{Output: 100}, bodies.Wait},
		"failure":  {emulator.Answer{Cut: 0.5, Error: "serviceUnavailableException"}, bodies.Usage{Output: 100}, bodies.Alone},
	} {
		t.Run(name, func(t *testing.T) {
			c.answer.Input, c.answer.CacheRead, c.answer.Output = 500, 70, 200
			api, err := emulator.NewBedrock(emulator.BedrockConfig{Tokens: 100_000, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer { return c.answer }}})
			require.NoError(t, err)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/model/m/converse-stream", strings.NewReader(`{}`))
			require.NoError(t, err)
			response, err := emulator.RoundTripper(api).RoundTrip(request)
			require.NoError(t, err)
			text, _ := io.ReadAll(response.Body)
			for _, size := range []int{1, 7, 100, len(text)} {
				scan := bodies.NewScanner(response.Header)
				for part := range slices.Chunk(text, size) {
					_, _ = scan.Write(part)
				}
				scan.End(true)
				u := scan.Usage()
				if !c.usage.Complete {
					assert.InDelta(t, c.usage.Output, u.Output, 60)
					u.Output = c.usage.Output
				}
				assert.Equal(t, c.usage, u)
				assert.Equal(t, c.class, bodies.Classify(bodies.Bedrock, 200, response.Header, scan.Failure(), time.Now()).Class)
			}
		})
	}
	scan := bodies.NewScanner(http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}})
	_, _ = fmt.Fprint(scan, strings.Repeat("no frame ", 100))
	assert.Zero(t, scan.Usage())
}
