package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

func newAzure(t *testing.T, config emulator.AzureConfig) *emulator.Azure {
	t.Helper()
	api, err := emulator.NewAzure(config)
	require.NoError(t, err)
	return api
}

// Each rule of a deployment, with calls that keep it and calls that do not. Simulated time begins on the minute.
func TestAzureRules(t *testing.T) {
	uses := emulator.Wire{Answer: answers(emulator.Answer{Input: 300, Output: 100})}
	for _, c := range []struct {
		name   string
		config emulator.AzureConfig
		asks   []ask
	}{
		{"the prompt and max_tokens count until the minute ends", emulator.AzureConfig{Tokens: 2000, Requests: 600, Wire: uses}, []ask{
			{max: 700, want: "200"}, {max: 701, want: "429 token rate limit"}, {max: 700, want: "200"}, {after: 59 * time.Second, max: 1, want: "429 retry after 1 seconds"}, {after: time.Second, max: 700, want: "200"},
		}},
		{"each ten seconds allow a sixth of the requests", emulator.AzureConfig{Tokens: 90_000, Requests: 12, Wire: uses}, []ask{
			{want: "200"}, {want: "200"}, {want: "429 call rate limit"}, {after: 9 * time.Second, want: "429"}, {after: time.Second, want: "200"},
		}},
		{"six requests for each 1000 tokens", emulator.AzureConfig{Tokens: 1000, Wire: uses}, []ask{{want: "200"}, {want: "429 call rate limit"}}},
		{"its minute begins earlier", emulator.AzureConfig{Tokens: 1000, Requests: 600, Skew: 2 * time.Second, Wire: uses}, []ask{
			{max: 700, want: "200"}, {after: 57 * time.Second, max: 700, want: "429"}, {after: time.Second, max: 700, want: "200"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, newAzure(t, c.config), "/openai/deployments/gpt/chat/completions", c.asks) })
		})
	}
}

// The headers follow a limit that is lowered and raised again, and every twentieth response makes no sense.
func TestAzureHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAzure(t, emulator.AzureConfig{Tokens: 240_000})
		senseless := 0
		for i := range 40 {
			if i == 10 {
				api.SetTokens(150_000)
			}
			status, h, _ := post(t, api, "/openai/deployments/gpt/chat/completions", `{"max_tokens":60}`)
			assert.Equal(t, 200, status)
			assert.Equal(t, map[bool]string{true: "240000", false: "150000"}[i < 10], h.Get("x-ratelimit-limit-tokens"))
			assert.NotEmpty(t, h.Get("x-rate-limit-reset-tokens"))
			if h.Get("x-ratelimit-remaining-tokens") == "-1" {
				senseless++
			}
		}
		assert.Equal(t, 2, senseless)
		api.SetTokens(1000)
		_, h, _ := post(t, api, "/openai/deployments/gpt/chat/completions", `{"max_tokens":60}`)
		assert.NotEmpty(t, h.Get("retry-after-ms"))
		assert.Empty(t, h.Get("retry-after"))
	})
}

// A client whose 1,400 of 1,440 requests per minute come in bursts is refused. If it paces them, it is not.
func TestAzureFindsWrongClients(t *testing.T) {
	for burst, wrong := range map[int]bool{1: false, 350: true} {
		synctest.Test(t, func(t *testing.T) {
			api := newAzure(t, emulator.AzureConfig{Tokens: 9_000_000, Requests: 1440})
			for range 1400 / burst {
				for range burst {
					post(t, api, "/", "{}")
				}
				time.Sleep(time.Minute / time.Duration(1400/burst))
			}
			assert.Equal(t, wrong, api.Report().Limit("requests").Refused > 0)
		})
	}
}
