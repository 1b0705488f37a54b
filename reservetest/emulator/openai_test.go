package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

func newOpenAI(t *testing.T, config emulator.OpenAIConfig) *emulator.OpenAI {
	t.Helper()
	api, err := emulator.NewOpenAI(config)
	require.NoError(t, err)
	return api
}

// Each rule of the account, with calls that keep it and calls that do not.
func TestOpenAIRules(t *testing.T) {
	uses := emulator.Wire{Answer: answers(emulator.Answer{Input: 300, Output: 100})}
	for _, c := range []struct {
		name   string
		config emulator.OpenAIConfig
		asks   []ask
	}{
		{"max_tokens count, and not what is used", emulator.OpenAIConfig{Requests: 900, Tokens: 6000, Wire: uses}, []ask{
			{max: 4000, want: `200 "total_tokens":400`}, {max: 2500, want: "429 Limit 6000, Used 4000, Requested 2500. Please try again in 5s."},
			{max: 2000, want: "200"}, {max: 1, want: "429"}, {after: 3 * time.Second, max: 1, want: "200"},
		}},
		{"the prompt counts if it is larger", emulator.OpenAIConfig{Requests: 900, Tokens: 600, Wire: uses}, []ask{
			{max: 1, want: "200"}, {max: 300, want: "200"}, {max: 1, want: "429"},
		}},
		{"what was not used comes back", emulator.OpenAIConfig{Requests: 900, Tokens: 6000, Refund: true, Wire: uses}, []ask{
			{max: 6000, want: "200"}, {max: 5600, want: "200"}, {max: 5201, want: "429"},
		}},
		{"a request that never fits", emulator.OpenAIConfig{Requests: 900, Tokens: 6000, Wire: uses}, []ask{{max: 6001, want: "429 Request too large"}}},
		{"refused requests count", emulator.OpenAIConfig{Requests: 2, Tokens: 600, Wire: uses}, []ask{
			{max: 600, want: "200"}, {max: 600, want: "429 tokens"}, {max: 1, want: "429 requests per min"}, {after: 30 * time.Second, max: 1, want: "429 requests per min"},
			{after: time.Minute + 500*time.Millisecond, max: 1, want: "200"},
		}},
		{"the project has a limit of its own", emulator.OpenAIConfig{Requests: 900, Tokens: 6000, Project: 500, Wire: uses}, []ask{
			{max: 400, want: "200"}, {max: 400, want: "429 project-tokens"},
		}},
		{"a day's requests, which no header states", emulator.OpenAIConfig{Requests: 900, Tokens: 6000, Daily: 2, Wire: uses}, []ask{
			{want: "200"}, {want: "200"}, {want: "429 requests per day"}, {after: 23 * time.Hour, want: "429"}, {after: time.Hour, want: "200"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, newOpenAI(t, c.config), "/v1/chat/completions", c.asks) })
		})
	}
}

// Both limits of tokens stand in the headers, with durations. A day's limit does not.
func TestOpenAIHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newOpenAI(t, emulator.OpenAIConfig{Requests: 60, Tokens: 6000, Project: 3000, Daily: 10})
		_, h, _ := post(t, api, "/v1/chat/completions", `{"max_tokens":600}`)
		assert.Equal(t, []string{"60", "59", "1s", "6000", "5400", "6s", "3000", "2400", "12s", ""}, []string{
			h.Get("x-ratelimit-limit-requests"), h.Get("x-ratelimit-remaining-requests"), h.Get("x-ratelimit-reset-requests"),
			h.Get("x-ratelimit-limit-tokens"), h.Get("x-ratelimit-remaining-tokens"), h.Get("x-ratelimit-reset-tokens"),
			h.Get("x-ratelimit-limit-project-tokens"), h.Get("x-ratelimit-remaining-project-tokens"), h.Get("x-ratelimit-reset-project-tokens"),
			h.Get("x-ratelimit-limit-requests-day"),
		})
	})
}

// A stream of chats states its usage only if the request asks for it. That of a response always does.
func TestOpenAIStreams(t *testing.T) {
	for _, c := range []struct {
		path, body string
		answer     emulator.Answer
		has, not   string
	}{
		{"/v1/chat/completions", `{"stream":true}`, emulator.Answer{}, "data: [DONE]\n\n", `"usage"`},
		{"/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true}}`, emulator.Answer{}, `"choices":[],"usage":{"prompt_tokens":300,"completion_tokens":100`, ""},
		{"/v1/chat/completions", `{"stream":true}`, emulator.Answer{Cut: 0.5, Error: "rate_limit_exceeded"}, `"code":"rate_limit_exceeded"`, "[DONE]"},
		{"/v1/responses", `{"stream":true}`, emulator.Answer{}, `"output_tokens":100`, "[DONE]"},
		{"/v1/responses", `{"stream":true}`, emulator.Answer{Cut: 0.5, Error: "server_error"}, "response.failed", "response.completed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.answer.Input, c.answer.Output = 300, 100
			api := newOpenAI(t, emulator.OpenAIConfig{Requests: 60, Tokens: 6000, Wire: emulator.Wire{Answer: answers(c.answer)}})
			_, _, body := post(t, api, c.path, c.body)
			assert.Contains(t, body, c.has)
			if c.not != "" {
				assert.NotContains(t, body, c.not)
			}
			assert.Zero(t, api.Report().Open)
		})
	}
}

// A stopped account refuses all calls with its code and states no time.
func TestOpenAIStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newOpenAI(t, emulator.OpenAIConfig{Requests: 60, Tokens: 6000})
		api.Stop("credit_balance_exhausted")
		status, h, body := post(t, api, "/v1/chat/completions", "{}")
		assert.Equal(t, 429, status)
		assert.Empty(t, h.Get("Retry-After"))
		assert.Contains(t, body, `"type":"insufficient_quota","param":null,"code":"credit_balance_exhausted"`)
		post(t, api, "/v1/chat/completions", "{}")
		assert.Equal(t, 1, api.Report().AfterStop)
	})
}

// A client that settles to what the answers state overruns an account that refunds nothing: 588 calls per minute
// where 488 fit. One that counts max_tokens keeps the limit.
func TestOpenAIFindsWrongClients(t *testing.T) {
	for perMinute, wrong := range map[int]bool{485: false, 588: true} {
		synctest.Test(t, func(t *testing.T) {
			api := newOpenAI(t, emulator.OpenAIConfig{Requests: 5000, Tokens: 2_000_000, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 3000, Output: 400})}})
			for range 10 * perMinute {
				post(t, api, "/v1/chat/completions", `{"max_tokens":4096}`)
				time.Sleep(time.Minute / time.Duration(perMinute))
			}
			assert.Equal(t, wrong, api.Report().Limit("tokens").Refused > 0)
		})
	}
}
