package emulator_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

// A fleet that rises to its limit of 3 million tokens a minute at once is slowed down. One that rises by half each
// 15 minutes is not.
func TestOpenAIRamp(t *testing.T) {
	for name, c := range map[string]struct {
		rates []int // calls of 100,000 tokens a minute, for 15 minutes each
		wrong bool
	}{"slowly": {[]int{10, 15, 22}, false}, "at once": {[]int{10, 29}, true}, "from the beginning": {[]int{29}, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newOpenAI(t, emulator.OpenAIConfig{Requests: 5000, Tokens: 3_000_000, Ramp: 1_000_000})
				for _, rate := range c.rates {
					for range 15 {
						for range rate {
							status, h, body := post(t, api, "/v1/chat/completions", `{"model":"m","max_tokens":100000}`)
							if status != 200 {
								assert.Equal(t, 429, status)
								assert.Contains(t, body, `"code":"slow_down"`)
								assert.Empty(t, h.Get("Retry-After"))
							}
						}
						time.Sleep(time.Minute)
					}
				}
				assert.Equal(t, c.wrong, api.Report().Limit("ramp").Refused > 0)
				assert.Equal(t, c.wrong, api.Report().Refused["slow_down"] > 0)
			})
		})
	}
}

// Input that doubles each minute passes, and input that rises to the limit at once does not.
func TestAnthropicRamp(t *testing.T) {
	for name, c := range map[string]struct {
		rates []int // calls of 1,000 tokens in each minute
		wrong bool
	}{"doubling": {[]int{10, 20, 40, 80}, false}, "at once": {[]int{10, 80}, true}, "after a rest": {[]int{10, 20, 40, 0, 40}, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newAnthropic(t, emulator.AnthropicConfig{Requests: 5000, Input: 100_000, Output: 100_000, Ramp: 10_000, Wire: emulator.Wire{Answer: answers(emulator.Answer{Input: 1000, Output: 1})}})
				for _, rate := range c.rates {
					for range rate {
						if status, _, body := post(t, api, "/v1/messages", `{}`); status != 200 {
							assert.Contains(t, body, "acceleration limit")
						}
					}
					time.Sleep(time.Minute)
				}
				assert.Equal(t, c.wrong, api.Report().Limit("acceleration").Refused > 0)
			})
		})
	}
}

// A client that uses all of the limit is refused if others use a part of it, or if the limit is lowered.
func TestOthersAndSetLimit(t *testing.T) {
	for name, meanwhile := range map[string]func(*emulator.OpenAI) bool{
		"alone":   func(*emulator.OpenAI) bool { return true },
		"others":  func(api *emulator.OpenAI) bool { return api.Others("m", "tokens", 5500) },
		"lowered": func(api *emulator.OpenAI) bool { return api.SetLimit("m", "tokens", 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := newOpenAI(t, emulator.OpenAIConfig{Requests: 5000, Tokens: 6000})
				assert.False(t, api.Others("m", "tokens", 1))
				assert.False(t, api.SetLimit("m", "tokens", 1))
				for i := range 10 {
					post(t, api, "/v1/chat/completions", `{"model":"m","max_tokens":1000}`)
					if i == 0 {
						assert.True(t, meanwhile(api))
					}
					time.Sleep(10 * time.Second)
				}
				assert.Equal(t, name != "alone", api.Report().Limit("tokens").Refused > 0)
			})
		})
	}
}

// A call counts when it arrives. So a client that waits for the next minute of its own clock is refused if its calls of the
// minute before come late.
func TestLate(t *testing.T) {
	for late, wrong := range map[time.Duration]bool{0: false, 300 * time.Millisecond: true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			api := newAzure(t, emulator.AzureConfig{Tokens: 1000, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
				n++
				if n == 1 {
					return emulator.Answer{Input: 1, Late: late}
				}
				return emulator.Answer{Input: 1}
			}}})
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute - 100*time.Millisecond)))
			done := make(chan int)
			ask := func() {
				status, _, _ := post(t, api, "/openai/deployments/m/chat/completions", `{"max_tokens":900}`)
				done <- status
			}
			go ask()
			time.Sleep(400 * time.Millisecond)
			go ask()
			assert.Equal(t, wrong, <-done+<-done != 400)
		})
	}
}

// Calls of a model without quota are refused for ever, although the refusal names a delay.
func TestGeminiZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newGemini(t, emulator.GeminiConfig{Requests: 900, Input: 90_000, Zero: []string{"pro"}})
		for range 3 { // a client that believes the delay
			status, _, body := post(t, api, "/v1beta/models/pro:generateContent", "{}")
			assert.Equal(t, 429, status)
			assert.Contains(t, body, `"quotaValue":"0"`)
			assert.Contains(t, body, `"retryDelay":"26s"`)
			time.Sleep(26 * time.Second)
		}
		status, _, _ := post(t, api, "/v1beta/models/flash:generateContent", "{}")
		assert.Equal(t, 200, status)
		assert.Equal(t, 3, api.Report().Refused["RESOURCE_EXHAUSTED"])
	})
}

// The report says when the limit was used, and for how long no call was admitted.
func TestReportOfTens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newOpenAI(t, emulator.OpenAIConfig{Requests: 5000, Tokens: 6000})
		for _, after := range []time.Duration{0, 3 * time.Second, 8 * time.Second, 25 * time.Second} {
			time.Sleep(after)
			post(t, api, "/v1/chat/completions", `{"model":"m","max_tokens":1000}`)
		}
		post(t, api, "/v1/chat/completions", `{"model":"m","max_tokens":6000}`) // refused
		assert.Equal(t, []float64{2000, 1000, 0, 1000}, api.Report().Limit("tokens").Tens)
		assert.Equal(t, 25*time.Second, api.Report().LongestGap())
		assert.Equal(t, "4000", fmt.Sprint(api.Report().Limit("tokens").Used))
	})
}

// A client that keeps the points of a minute, and creates more than 80 things in it, breaks a secondary limit. Queries and
// mutations of GraphQL have points of their own. A used-up hour of GraphQL is a failure with status 200.
func TestGitHubContentAndGraphQL(t *testing.T) {
	for perMinute, wrong := range map[int]bool{80: false, 90: true} {
		synctest.Test(t, func(t *testing.T) {
			api := newGitHub(t, emulator.GitHubConfig{})
			for range perMinute {
				get(t, api, http.MethodPost)
			}
			assert.Equal(t, wrong, api.Report().Secondary > 0)
			get(t, api, http.MethodGet)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		api := newGitHub(t, emulator.GitHubConfig{ContentHourly: 2, Graph: 4, Hourly: 1})
		for _, c := range []struct{ body, want string }{{"query", "login"}, {"mutation", "login"}, {"mutation", "login"}, {"query", "login"}, {"query", `"type":"RATE_LIMITED"`}} {
			status, h, body := post(t, api, "/graphql", c.body)
			assert.Equal(t, http.StatusOK, status)
			assert.Equal(t, "graphql", h.Get("X-RateLimit-Resource"))
			assert.Contains(t, body, c.want)
		}
		status, _ := get(t, api, http.MethodGet)
		assert.Equal(t, http.StatusOK, status, "the hour of REST")
		status, _, _ = post(t, api, "/graphql", "mutation")
		assert.Equal(t, http.StatusForbidden, status, "the content of an hour")
		assert.Equal(t, 1, api.Report().Primary)
		assert.Equal(t, 1, api.Report().Secondary)
	})
}
