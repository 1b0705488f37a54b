package emulator_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// ask is one call to an emulator.
type ask struct {
	after time.Duration // since the call before
	model string
	max   int
	want  string // the status, and what the response must contain
}

// play makes the calls one after the other and checks each response.
func play(t *testing.T, api http.Handler, path string, asks []ask) {
	t.Helper()
	for i, a := range asks {
		time.Sleep(a.after)
		status, _, body := post(t, api, path, fmt.Sprintf(`{"model":%q,"max_tokens":%d}`, a.model, a.max))
		want, contains, _ := strings.Cut(a.want, " ")
		assert.Equal(t, want, fmt.Sprint(status), "call %d: %s", i, body)
		assert.Contains(t, body, contains, "call %d", i)
	}
}

// post sends a request and reads its whole response.
func post(t *testing.T, api http.Handler, path, body string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example"+path, strings.NewReader(body))
	require.NoError(t, err)
	response, err := emulator.RoundTripper(api).RoundTrip(r)
	require.NoError(t, err)
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	return response.StatusCode, response.Header, string(text)
}

func answers(a emulator.Answer) func(emulator.Call) emulator.Answer {
	return func(emulator.Call) emulator.Answer { return a }
}

// A wrong setting is named with its value.
func TestInvalid(t *testing.T) {
	for want, err := range map[string]error{
		"AnthropicConfig.Requests: must be at least 1 per minute, got 0": second(emulator.NewAnthropic(emulator.AnthropicConfig{})),
		"AnthropicConfig.Input":   second(emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 1, Output: 1})),
		"AnthropicConfig.Output":  second(emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 1, Input: 1})),
		"AnthropicConfig.Holds":   second(emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 1, Input: 1, Output: 1, Holds: 1})),
		"Wire.Split":              second(emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 1, Input: 1, Output: 1, Wire: emulator.Wire{Split: -1}})),
		"Wire.Every":              second(emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 1, Tokens: 1, Wire: emulator.Wire{Every: -1}})),
		"OpenAIConfig.Requests":   second(emulator.NewOpenAI(emulator.OpenAIConfig{})),
		"OpenAIConfig.Tokens":     second(emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 1})),
		"OpenAIConfig.Project":    second(emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 1, Tokens: 1, Project: -1})),
		"OpenAIConfig.Daily":      second(emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 1, Tokens: 1, Daily: -1})),
		"OpenAIConfig.Ramp":       second(emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 1, Tokens: 1, Ramp: -1})),
		"AnthropicConfig.Ramp":    second(emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 1, Input: 1, Output: 1, Ramp: -1})),
		"OpenAIConfig.Holds":      second(emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 1, Tokens: 1, Holds: -1})),
		"AzureConfig.Tokens":      second(emulator.NewAzure(emulator.AzureConfig{Requests: 6})),
		"AzureConfig.Requests":    second(emulator.NewAzure(emulator.AzureConfig{Tokens: 1})),
		"AzureConfig.Skew":        second(emulator.NewAzure(emulator.AzureConfig{Tokens: 1000, Skew: time.Hour})),
		"GeminiConfig.Requests":   second(emulator.NewGemini(emulator.GeminiConfig{})),
		"GeminiConfig.Input":      second(emulator.NewGemini(emulator.GeminiConfig{Requests: 1})),
		"GeminiConfig.Daily":      second(emulator.NewGemini(emulator.GeminiConfig{Requests: 1, Input: 1, Daily: -1})),
		"BedrockConfig.Tokens":    second(emulator.NewBedrock(emulator.BedrockConfig{})),
		"BedrockConfig.Daily":     second(emulator.NewBedrock(emulator.BedrockConfig{Tokens: 1, Daily: -1})),
		"BedrockConfig.Burndown":  second(emulator.NewBedrock(emulator.BedrockConfig{Tokens: 1, Burndown: -1})),
		"BedrockConfig.MaxTokens": second(emulator.NewBedrock(emulator.BedrockConfig{Tokens: 1, MaxTokens: -1})),
		"GitHubConfig.Hourly":     second(emulator.NewGitHub(emulator.GitHubConfig{Hourly: -1})),
		"GitHubConfig.Points":     second(emulator.NewGitHub(emulator.GitHubConfig{Points: -1})),
		"GitHubConfig.AtOnce":     second(emulator.NewGitHub(emulator.GitHubConfig{AtOnce: -1})),
		"GitHubConfig.Takes":      second(emulator.NewGitHub(emulator.GitHubConfig{Takes: -1})),
		"ShopifyConfig.Points":    second(emulator.NewShopify(emulator.ShopifyConfig{Points: -1})),
		"ShopifyConfig.Rate":      second(emulator.NewShopify(emulator.ShopifyConfig{Rate: -1})),
	} {
		require.ErrorIs(t, err, emulator.ErrInvalid, want)
		assert.ErrorContains(t, err, want)
	}
}

func second[T any](_ T, err error) error { return err }

// The bytes of a stream are the same whole, split and compressed. Its events come when the model produces them.
func TestStreamTravels(t *testing.T) {
	var whole string
	for _, split := range []int{0, 1, 7} {
		synctest.Test(t, func(t *testing.T) {
			api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000, Wire: emulator.Wire{
				Split: split, Answer: answers(emulator.Answer{Input: 100, Output: 100, Wait: 2 * time.Second, PerSecond: 50}),
			}})
			require.NoError(t, err)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/v1/messages", strings.NewReader(`{"model":"m","stream":true,"max_tokens":100}`))
			require.NoError(t, err)
			began := time.Now()
			response, err := emulator.RoundTripper(api).RoundTrip(r)
			require.NoError(t, err)
			assert.Equal(t, 2*time.Second, time.Since(began), "the response begins with its first byte")
			var text strings.Builder
			var last time.Duration
			for lines := bufio.NewScanner(response.Body); lines.Scan(); {
				text.WriteString(lines.Text() + "\n")
				if strings.Contains(lines.Text(), "content_block_delta") {
					last = time.Since(began)
				}
			}
			require.NoError(t, response.Body.Close())
			assert.InDelta(t, 4, last.Seconds(), 0.001, "100 tokens at 50 per second")
			if whole == "" {
				whole = text.String()
			}
			assert.Equal(t, whole, text.String())
		})
	}
	assert.True(t, strings.HasSuffix(whole, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"), whole)
}
