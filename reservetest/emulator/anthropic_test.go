package emulator_test

import (
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

func newAnthropic(t *testing.T, config emulator.AnthropicConfig) *emulator.Anthropic {
	t.Helper()
	api, err := emulator.NewAnthropic(config)
	require.NoError(t, err)
	return api
}

// Each rule of the account, with calls that keep it and calls that do not.
func TestAnthropicRules(t *testing.T) {
	input := func(n, read, write int) emulator.Wire {
		return emulator.Wire{Answer: answers(emulator.Answer{Input: n, CacheRead: read, CacheWrite: write, Output: 10})}
	}
	for _, c := range []struct {
		name   string
		config emulator.AnthropicConfig
		asks   []ask
	}{
		{"requests come one by one", emulator.AnthropicConfig{Requests: 2, Input: 9000, Output: 9000, Wire: input(1, 0, 0)}, []ask{
			{want: "200"}, {want: "200"}, {want: `429 rate limit of 2 requests per minute`}, {after: 29 * time.Second, want: "429"}, {after: time.Second, want: "200"}, {want: "429"},
		}},
		{"input counts what no cache held", emulator.AnthropicConfig{Requests: 900, Input: 3000, Output: 9000, Wire: input(1000, 60_000, 500)}, []ask{
			{want: `200 "cache_read_input_tokens":60000`}, {want: "200"}, {want: "429 rate limit of 3000 input tokens per minute"}, {after: 30 * time.Second, want: "200"},
		}},
		{"a prompt that never fits", emulator.AnthropicConfig{Requests: 900, Input: 999, Output: 9000, Wire: input(1000, 0, 0)}, []ask{
			{want: "429"}, {after: time.Hour, want: "429"},
		}},
		{"models have limits of their own", emulator.AnthropicConfig{Requests: 1, Input: 9000, Output: 9000, Wire: input(1, 0, 0)}, []ask{
			{model: "a", want: "200"}, {model: "b", want: "200"}, {model: "a", want: "429"},
		}},
		{"output counts when it is produced", emulator.AnthropicConfig{Requests: 900, Input: 9000, Output: 600, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 1, Output: 700})}}, []ask{
			{max: 5000, want: `200 "output_tokens":700`}, {want: "429 rate limit of 600 output tokens per minute"}, {after: 10 * time.Second, want: "429"}, {after: time.Second, want: "200"},
		}},
		{"output is reserved by max_tokens", emulator.AnthropicConfig{Requests: 900, Input: 9000, Output: 600, ReserveMax: true, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 1, Output: 100})}}, []ask{
			{max: 601, want: "429"}, {max: 600, want: "200"}, {max: 501, want: "429"}, {max: 500, want: "200"},
		}},
		{"the prompt is estimated, and corrected", emulator.AnthropicConfig{Requests: 900, Input: 600, Output: 9000, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 500, Estimate: 100})}}, []ask{
			{want: "200"}, {want: "200"}, {want: "429"}, {after: 49 * time.Second, want: "429"}, {after: time.Second, want: "200"},
		}},
		{"a refusal that no limit causes", emulator.AnthropicConfig{Requests: 1, Input: 9000, Output: 9000, Wire: emulator.Wire{Answer: func(c emulator.Call) emulator.Answer {
			if c.Max == 1 {
				return emulator.Answer{Refuse: "overloaded_error", Status: 529}
			}
			return emulator.Answer{}
		}}}, []ask{{max: 1, want: "529 overloaded_error"}, {max: 2, want: "200"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, newAnthropic(t, c.config), "/v1/messages", c.asks) })
		})
	}
}

// The headers state each limit, what is left and when the bucket is full. A refusal says when to try again.
func TestAnthropicHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAnthropic(t, emulator.AnthropicConfig{Requests: 2, Input: 30_000, Output: 8000, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 10_700, Output: 10})}})
		_, h, _ := post(t, api, "/v1/messages", "{}")
		assert.Equal(t, []string{"2", "1", "30000", "19000", "8000"}, []string{
			h.Get("anthropic-ratelimit-requests-limit"), h.Get("anthropic-ratelimit-requests-remaining"),
			h.Get("anthropic-ratelimit-input-tokens-limit"), h.Get("anthropic-ratelimit-input-tokens-remaining"), h.Get("anthropic-ratelimit-output-tokens-limit"),
		})
		reset, err := time.Parse(time.RFC3339, h.Get("anthropic-ratelimit-requests-reset"))
		require.NoError(t, err)
		assert.InDelta(t, 30, time.Until(reset).Seconds(), 1.01)
		post(t, api, "/v1/messages", "{}")
		status, h, _ := post(t, api, "/v1/messages", "{}")
		assert.Equal(t, 429, status)
		assert.Equal(t, "30", h.Get("Retry-After"))
	})
}

// A stopped account says so to each call, and counts the calls that come although it has said so.
func TestAnthropicStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAnthropic(t, emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000})
		for why, want := range map[emulator.AnthropicStop]string{
			emulator.AnthropicSpendLimit: "429 enforced_spend_limit_reached",
			emulator.AnthropicOwnLimit:   "400 You have reached your specified API usage limits",
			emulator.AnthropicCredit:     "400 Your credit balance is too low",
		} {
			before := api.Report().AfterStop
			api.Stop(why)
			play(t, api, "/v1/messages", []ask{{want: want}, {want: want}, {want: want}})
			assert.Equal(t, 2, api.Report().AfterStop-before)
			api.Resume()
			play(t, api, "/v1/messages", []ask{{want: "200"}})
			assert.Equal(t, 2, api.Report().AfterStop-before)
		}
	})
}

// A stream that the client, the provider or an error ends has counted its input, and the output that was produced.
// Nothing stays open.
func TestAnthropicCut(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer emulator.Answer
		closes time.Duration
		ends   string // with what the stream ends
		output float64
	}{
		{"whole", emulator.Answer{}, 0, "message_stop", 400},
		{"by the provider", emulator.Answer{Cut: 0.5}, 0, "text_delta", 200},
		{"by a broken connection", emulator.Answer{Cut: 0.5, Reset: true}, 0, "unexpected EOF", 200},
		{"by an error", emulator.Answer{Cut: 0.25, Error: "overloaded_error"}, 0, `"overloaded_error"`, 100},
		{"by the client", emulator.Answer{}, 2100 * time.Millisecond, "text_delta", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.answer.Input, c.answer.Output, c.answer.PerSecond = 1000, 400, 100
				api := newAnthropic(t, emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000, Wire: emulator.Wire{Answer: answers(c.answer)}})
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/v1/messages", strings.NewReader(`{"stream":true}`))
				require.NoError(t, err)
				response, err := emulator.RoundTripper(api).RoundTrip(r)
				require.NoError(t, err)
				if c.closes > 0 {
					time.AfterFunc(c.closes, func() { _ = response.Body.Close() })
				}
				text, err := io.ReadAll(response.Body)
				assert.Contains(t, string(text)+fmt.Sprint(err), c.ends)
				assert.Equal(t, c.name == "whole", strings.Contains(string(text), "message_stop"))
				_ = response.Body.Close()
				synctest.Wait()
				report := api.Report()
				assert.Zero(t, report.Open)
				assert.Equal(t, 1, report.MostOpen)
				assert.InDelta(t, 1000, report.Limit("input-tokens").Used, 0)
				assert.InDelta(t, c.output, report.Limit("output-tokens").Used, 0)
			})
		})
	}
}

// Clients that do not keep the limits are refused: one that counts cache reads only, one that retries at once, one
// that estimates a third, and one that lets output run.
func TestAnthropicFindsWrongClients(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		reply emulator.Answer
		wrong bool
		over  string // the limit that the client breaks
	}{
		{"keeps the limits", 2 * time.Second, emulator.Answer{Input: 1000, Output: 100}, false, ""},
		{"too many requests", 1100 * time.Millisecond, emulator.Answer{Input: 1, Output: 1}, true, "requests"},
		{"too much input", 2 * time.Second, emulator.Answer{Input: 1200, Output: 100}, true, "input-tokens"},
		{"caches that are written do not count", 2 * time.Second, emulator.Answer{Input: 1, CacheWrite: 1200, Output: 1}, true, "input-tokens"},
		{"too much output", 2 * time.Second, emulator.Answer{Input: 1000, Output: 300}, true, "output-tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newAnthropic(t, emulator.AnthropicConfig{Requests: 50, Input: 30_000, Output: 8000, Wire: emulator.Wire{Answer: answers(c.reply)}})
				for began := time.Now(); time.Since(began) < 20*time.Minute; time.Sleep(c.every) {
					post(t, api, "/v1/messages", "{}")
				}
				report := api.Report()
				assert.Equal(t, c.wrong, report.Refused["rate_limit_error"] > 0, "%v", report.Refused)
				for _, l := range report.Limits {
					assert.Equal(t, l.Name == c.over, l.Refused > 0, "%+v", l)
					assert.LessOrEqual(t, l.Used, l.Most+l.Overrun)
				}
			})
		})
	}
}

// A scaled limit is lower at once, and states itself, until it is scaled back.
func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 60, Input: 1000, Output: 1000, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 500, Output: 1})}})
		require.NoError(t, err)
		call := func(model string) (status int, limit string) {
			status, header, _ := post(t, api, "/v1/messages", `{"model":"`+model+`"}`)
			return status, header.Get("Anthropic-Ratelimit-Input-Tokens-Limit")
		}
		for _, want := range []struct {
			scale  float64
			status int
			limit  string
		}{{1, 200, "1000"}, {0.6, 200, "600"}, {1, 429, "600"}, {1 / 0.6, 429, "1000"}} {
			api.Scale(want.scale)
			status, limit := call("m")
			assert.Equal(t, want.status, status)
			assert.Equal(t, want.limit, limit)
		}
		api.Scale(0.5)
		_, limit := call("a model that is called for the first time")
		assert.Equal(t, "500", limit)
	})
}
