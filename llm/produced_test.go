package llm_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// A provider counts an answer while it produces it, and so does the limit, once that is more than was reserved. Where
// the provider counts what a request reserves, the answer is settled at its end.
func TestAnswersCountAsTheyAreProduced(t *testing.T) {
	const input, output, estimate, perSecond = 1500, 5000, 500, 100
	for name, way := range map[string]struct{ hand, zipped, reserved bool }{"a client": {}, "compressed": {zipped: true}, "by hand": {hand: true}, "reserved": {reserved: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				preset := llm.Anthropic("m", llm.Build)
				preset.Output, preset.Burst = 60, 200*time.Minute // no token comes back meanwhile
				if way.reserved {
					preset.Counting, preset.MostOutput = llm.CountReserved, estimate
				}
				set := newSet(t, bubble.New(t), llm.Config{Account: "a", Preset: preset, Estimate: func(*http.Request) llm.Estimate {
					return llm.Estimate{Input: input, Output: estimate}
				}})
				left := func() float64 {
					states, err := set.Limits().States(t.Context())
					require.NoError(t, err)
					return states[2].Stored
				}
				full := left()
				done := make(chan struct{})
				if way.hand {
					call, err := set.Acquire(t.Context(), llm.Estimate{Input: input, Output: estimate})
					require.NoError(t, err)
					go func() {
						defer close(done)
						call.Saw(llm.Usage{Input: input})
						for range output / 10 {
							time.Sleep(10 * time.Second / perSecond)
							call.Produced(40)
						}
						call.Saw(llm.Usage{Output: output})
						call.Done()
					}()
				} else {
					api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000, Wire: emulator.Wire{Gzip: way.zipped, Answer: func(emulator.Call) emulator.Answer {
						return emulator.Answer{Input: input, Output: output, PerSecond: perSecond}
					}}})
					require.NoError(t, err)
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/v1/messages", strings.NewReader(`{"model":"m","max_tokens":8192,"stream":true}`))
					require.NoError(t, err)
					r.Header.Set("Accept-Encoding", "gzip")
					response, err := set.Client(&http.Client{Transport: emulator.RoundTripper(api)}).Transport.RoundTrip(r)
					require.NoError(t, err)
					go func() {
						defer close(done)
						_, _ = io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
					}()
				}
				time.Sleep(25 * time.Second)
				counted := 25.0 * perSecond
				if way.reserved {
					counted = estimate
				}
				assert.InDelta(t, counted, full-left(), 1.5*perSecond)
				<-done
				time.Sleep(time.Second)
				assert.InDelta(t, output, full-left(), perSecond)
			})
		})
	}
}
