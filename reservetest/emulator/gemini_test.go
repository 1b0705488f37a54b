package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

func newGemini(t *testing.T, config emulator.GeminiConfig) *emulator.Gemini {
	t.Helper()
	api, err := emulator.NewGemini(config)
	require.NoError(t, err)
	return api
}

// Each rule of a project, with calls that keep it and calls that do not. Simulated time begins at midnight in UTC,
// which is 16:00 at the Pacific coast.
func TestGeminiRules(t *testing.T) {
	uses := emulator.Wire{Answer: answers(emulator.Answer{Input: 300, CacheRead: 700, Output: 100})}
	for _, c := range []struct {
		name   string
		config emulator.GeminiConfig
		asks   []ask
	}{
		{"input counts, with what a cache held", emulator.GeminiConfig{Requests: 900, Input: 2500, Wire: uses}, []ask{
			{want: "200"}, {want: "200"}, {want: `429 "retryDelay":"12s"`}, {want: "429 GenerateContentInputTokensPerModelPerMinute"}, {after: 12 * time.Second, want: "200"},
		}},
		{"refused requests count", emulator.GeminiConfig{Requests: 2, Input: 9000, Wire: uses}, []ask{
			{want: "200"}, {want: "200"}, {want: "429 RequestsPerMinute"}, {after: 30 * time.Second, want: "429"}, {after: 90 * time.Second, want: "200"},
		}},
		{"the day ends at the Pacific coast, whatever the delay says", emulator.GeminiConfig{Requests: 900, Input: 90_000, Daily: 2, Wire: uses}, []ask{
			{want: "200"}, {want: "200"}, {want: `429 "retryDelay":"26s"`}, {after: 7*time.Hour + 59*time.Minute, want: "429 RequestsPerDay"}, {after: time.Minute, want: "200"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				play(t, newGemini(t, c.config), "/v1beta/models/gemini-3:generateContent", c.asks)
			})
		})
	}
}

// No header states a limit. A stream states its whole usage in its last event alone.
func TestGeminiAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newGemini(t, emulator.GeminiConfig{Requests: 900, Input: 90_000, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 300, Output: 100})}})
		_, h, body := post(t, api, "/v1beta/models/gemini-3:streamGenerateContent", "{}")
		assert.Equal(t, "text/event-stream", h.Get("Content-Type"))
		assert.Len(t, h, 1)
		assert.Contains(t, body, `"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":300,"cachedContentTokenCount":0,"candidatesTokenCount":100,"totalTokenCount":400}`)
		api.Stop()
		play(t, api, "/v1beta/models/gemini-3:generateContent", []ask{{want: "402 RESOURCE_EXHAUSTED"}})
		api.Resume()
		play(t, api, "/v1beta/models/gemini-3:generateContent", []ask{{want: "200"}})
	})
}

// A client that believes the delay of a day's quota calls in vain all day.
func TestGeminiFindsWrongClients(t *testing.T) {
	for wait, wrong := range map[time.Duration]bool{26 * time.Second: true, 8 * time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			api := newGemini(t, emulator.GeminiConfig{Requests: 900, Input: 90_000, Daily: 1})
			for range 5 {
				if status, _, _ := post(t, api, "/v1beta/models/m:generateContent", "{}"); status == 429 {
					time.Sleep(wait)
				}
			}
			assert.Equal(t, wrong, api.Report().Limit("requests-day").Refused > 3)
		})
	}
}
