package llm_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

func newSet(t *testing.T, b *bubble.Bubble, config llm.Config) *llm.Set {
	t.Helper()
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	set, err := llm.New(b.Client(), config)
	require.NoError(t, err)
	t.Cleanup(set.Close)
	return set
}

// Each wrong setting has an error that names its field.
func TestConfigIsChecked(t *testing.T) {
	good := llm.OpenAI("m", 10, 1000)
	for i, c := range []struct {
		config llm.Config
		want   string
	}{
		{llm.Config{Preset: good}, `Config.Account: must be from 1 to 64 bytes without braces and colons, got ""`},
		{llm.Config{Account: "a:b", Preset: good}, `Config.Account`},
		{llm.Config{Account: "a", Preset: llm.OpenAI("", 1, 1)}, `Config.Preset.Model`},
		{llm.Config{Account: "a", Preset: llm.OpenAI("m", 0, 0)}, `Config.Preset: must have a limit`},
		{llm.Config{Account: "a", Preset: llm.OpenAI("m", -1, 0)}, `Config.Preset: must have figures of 0`},
		{llm.Config{Account: "a", Preset: llm.Preset{Model: "m", Requests: 1}}, `Config.Preset.API`},
		{llm.Config{Account: "a", Preset: good, Slots: 1001}, `Config.Slots: must be from 1 to 1000, 0 for that number, or -1 for any number of calls at once, got 1001`},
		{llm.Config{Account: "a", Preset: good, Slots: -2}, `Config.Slots`},
		{llm.Config{Account: "a", Preset: windows(llm.Windows{Tokens: "X-RateLimit-Limit-Tokens"})}, `Config.Preset.Windows: must be names of limits, such as "tokens-minute" for X-RateLimit-Limit-Tokens-Minute, got "X-RateLimit-Limit-Tokens"`},
		{llm.Config{Account: "a", Preset: windows(llm.Windows{Tokens: "tokens,"})}, `Config.Preset.Windows`},
		{llm.Config{Account: "a", Preset: windows(llm.Windows{Tokens: "*"})}, `Config.Preset.Windows`},
		{llm.Config{Account: "a", Preset: good, Share: 1.5}, `Config.Share`},
		{llm.Config{Account: "a", Preset: good, Background: -1}, `Config.Background`},
		{llm.Config{Account: "a", Preset: good, Retries: -1}, `Config.Retries`},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			_, err := llm.New(nil, c.config)
			require.ErrorIs(t, err, llm.ErrInvalid)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func windows(names llm.Windows) llm.Preset {
	p := llm.OpenAI("m", 10, 1000)
	p.Windows = names
	return p
}

// Without slots, more calls than 1,000 are open at once. A stop of the account still reaches all of its models, and the
// overload of one model lowers its own limits alone.
func TestWithoutSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		config := llm.Config{Account: "a", Preset: llm.Preset{API: bodies.OpenAI, Model: "m", Requests: 60_000}, Slots: -1}
		set := newSet(t, b, config)
		config.Preset.Model = "other"
		other := newSet(t, b, config)
		var calls []*llm.Call
		for range 2500 {
			call, err := set.Acquire(t.Context(), llm.Estimate{Input: 1, Output: 1})
			require.NoError(t, err)
			calls = append(calls, call)
		}
		for _, call := range calls {
			call.Done()
		}
		code := "slow_down"
		client := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"error":{"code":"` + code + `"}}`)), Request: r}, nil
		})})
		rates := func() (rates []float64) {
			states, err := set.Limits().States(t.Context())
			require.NoError(t, err)
			for _, state := range states {
				rates = append(rates, state.Rate)
			}
			return rates
		}
		before := rates()
		for range 2 {
			response, err := client.Post("https://api.example/v1/chat/completions", "application/json", strings.NewReader(`{}`))
			require.NoError(t, err)
			_ = response.Body.Close()
			if code == "slow_down" {
				assert.Equal(t, []float64{before[0] / 2, before[1]}, rates())
			}
			code = "insufficient_quota"
		}
		_, err := other.Acquire(t.Context(), llm.Estimate{Input: 1})
		var gone *llm.Exhausted
		require.ErrorAs(t, err, &gone)
		assert.Equal(t, "a/calls", gone.Scope)
	})
}

// Small limits are rounded up, because 0 is no limit.
func TestPresetsHaveEachLimit(t *testing.T) {
	assert.Equal(t, 1, llm.Azure("d", 166).Requests)
	assert.Equal(t, 1, llm.Mistral("m", 0.01, 1000).Requests)
	_, _, err := llm.Chain().Acquire(t.Context(), llm.Estimate{}, time.Second)
	require.ErrorIs(t, err, llm.ErrInvalid)
	require.ErrorContains(t, err, "Chain: needs at least one Set")
}

// Calls that begin at once use most of an account's bucket, and overtake each other on their way. What the provider has counted is not taken off again from
// what its responses say is left, so nothing is paused.
func TestColdStart(t *testing.T) {
	for name, c := range map[string]struct {
		preset llm.Preset
		api    emulator.AnthropicConfig
	}{
		"requests": {llm.Preset{Requests: 20}, emulator.AnthropicConfig{Requests: 20, Input: 9_000_000, Output: 9_000_000}},
		"tokens":   {llm.Preset{Input: 2_000_000}, emulator.AnthropicConfig{Requests: 9000, Input: 2_000_000, Output: 9_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var number atomic.Int64
				c.api.Answer = func(emulator.Call) emulator.Answer { // the last call is answered first
					return emulator.Answer{Input: 100_000, Output: 10, Wait: 2*time.Second - 50*time.Millisecond*time.Duration(number.Add(1))}
				}
				api, err := emulator.NewAnthropic(c.api)
				require.NoError(t, err)
				p := llm.Anthropic("m", llm.Build)
				p.Requests, p.Input, p.Output, p.Burst = c.preset.Requests, c.preset.Input, 0, 48*time.Second
				set := newSet(t, bubble.New(t), llm.Config{Account: "a", Preset: p, Estimate: func(*http.Request) llm.Estimate { return llm.Estimate{Input: 100_000, Output: 10} }})
				var sent atomic.Int64
				client := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) { // the first call arrives last
					time.Sleep(15 * time.Millisecond * time.Duration(16-sent.Add(1)))
					return emulator.RoundTripper(api).RoundTrip(r)
				})})
				start := time.Now()
				var all sync.WaitGroup
				for range 16 {
					time.Sleep(time.Millisecond)
					all.Go(func() {
						response, err := client.Post("https://api.example/v1/messages", "application/json", strings.NewReader(`{}`))
						if assert.NoError(t, err) {
							_, _ = io.Copy(io.Discard, response.Body)
							_ = response.Body.Close()
						}
					})
				}
				all.Wait()
				states, err := set.Limits().States(t.Context())
				require.NoError(t, err)
				for _, state := range states {
					assert.Zero(t, state.Paused, state.PauseReason)
				}
				assert.Equal(t, 16, api.Report().Admitted)
				assert.Less(t, time.Since(start), 3*time.Second)
			})
		})
	}
}

// The fleet follows the limits that responses of each provider state, in the headers that the provider sends. What no
// header states in a form that fits the limit stays.
func TestPresetsFollowStatedLimits(t *testing.T) {
	for name, c := range map[string]struct {
		preset llm.Preset
		states []string       // name, value
		want   map[string]int // per minute, and for windows less by the burst
	}{
		"Anthropic": {llm.Anthropic("m", llm.Build), []string{
			"anthropic-ratelimit-requests-limit", "50", "anthropic-ratelimit-requests-remaining", "49",
			"anthropic-ratelimit-input-tokens-limit", "30000", "anthropic-ratelimit-input-tokens-remaining", "30000",
			"anthropic-ratelimit-output-tokens-limit", "8000", "anthropic-ratelimit-output-tokens-remaining", "8000",
			"anthropic-ratelimit-tokens-limit", "10", "anthropic-ratelimit-tokens-remaining", "10", // the lowest of all, perhaps of a workspace
		}, map[string]int{"requests": 50, "input": 30_000, "output": 8000}},
		"OpenAI": {llm.OpenAI("m", 600, 200_000), []string{
			"x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "1s",
			"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "140000", "x-ratelimit-reset-tokens", "4s",
		}, map[string]int{"requests": 60, "tokens": 150_000}},
		"OpenAI, project": {llm.OpenAI("m", 600, 200_000), []string{
			"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "140000", "x-ratelimit-reset-tokens", "4s",
			"x-ratelimit-limit-project-tokens", "60000", "x-ratelimit-remaining-project-tokens", "57000", "x-ratelimit-reset-project-tokens", "3s",
		}, map[string]int{"requests": 600, "tokens": 60_000}},
		"Azure": {llm.Azure("m", 240_000), []string{
			"x-ratelimit-remaining-requests", "200", "x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "140000", "x-rate-limit-reset-tokens", "55",
		}, map[string]int{"requests": 1440 - 6*2, "tokens": 150_000 - 1999}},
		"Groq": {llm.Groq("m", 30, 30_000), []string{
			"x-ratelimit-limit-requests", "14400", "x-ratelimit-remaining-requests", "14370", "x-ratelimit-reset-requests", "2m59.56s", // of a day
			"x-ratelimit-limit-tokens", "18000", "x-ratelimit-remaining-tokens", "17997", "x-ratelimit-reset-tokens", "10ms",
		}, map[string]int{"requests": 30, "tokens": 18_000}},
		"Mistral": {llm.Mistral("m", 10, 500_000), []string{
			"x-ratelimit-limit-tokens-minute", "100000", "x-ratelimit-remaining-tokens-minute", "99911", "x-ratelimit-tokens-query-cost", "52",
			"x-ratelimit-limit-req-minute", "60", "x-ratelimit-remaining-req-minute", "57",
		}, map[string]int{"requests": 60 - 9, "tokens": 100_000 - 8332}},
		"names of one's own": {llm.Preset{API: bodies.OpenAI, Model: "m", Requests: 600, Tokens: 200_000, Burst: time.Second, Windows: llm.Windows{Requests: "-", Tokens: "tokens-hour, Tokens-Minute"}}, []string{ // Cerebras
			"x-ratelimit-limit-requests-day", "14400", "x-ratelimit-remaining-requests-day", "14399", "x-ratelimit-reset-requests-day", "33011",
			"x-ratelimit-limit-tokens-minute", "60000", "x-ratelimit-remaining-tokens-minute", "57000", "x-ratelimit-reset-tokens-minute", "11.3",
		}, map[string]int{"requests": 600, "tokens": 60_000 - 3332}},
		"a header without a name": {llm.Preset{API: bodies.OpenAI, Model: "m", Requests: 600, Burst: time.Second, Windows: llm.Windows{Requests: "*"}}, []string{
			"RateLimit-Policy", `"default";q=60;w=60`, "RateLimit", `"default";r=59;t=60`,
		}, map[string]int{"requests": 60 - 9}},
		"Gemini":  {llm.Gemini("m", 100, 100_000), nil, map[string]int{"requests": 100, "input": 100_000}},
		"Bedrock": {llm.Bedrock("m", 200_000), []string{"X-Amzn-Bedrock-Input-Token-Count", "52"}, map[string]int{"tokens": 200_000}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := newSet(t, bubble.New(t), llm.Config{Account: "a", Preset: c.preset})
				client := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
					header := http.Header{}
					for pair := range slices.Chunk(c.states, 2) {
						header.Set(pair[0], pair[1])
					}
					return &http.Response{StatusCode: http.StatusOK, Header: header, Body: http.NoBody, Request: r}, nil
				})})
				response, err := client.Post("https://api.example/v1/chat/completions", "application/json", strings.NewReader(`{"max_tokens":100}`))
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				got := map[string]int{}
				for _, limiter := range set.Limits().Limits() {
					state, err := limiter.State(t.Context())
					require.NoError(t, err)
					if kind, ok := strings.CutPrefix(limiter.Name(), "m/"); ok {
						got[kind] = int(math.Round(60 * state.Rate))
					}
				}
				assert.Equal(t, c.want, got)
			})
		})
	}
}

// The tokens of a project and those of the account are one limit of a Set. It pauses for the one that has less left.
func TestTwoWindowsOfALimit(t *testing.T) {
	for _, left := range [][2]string{{"12000", "0"}, {"0", "12000"}} {
		synctest.Test(t, func(t *testing.T) {
			set := newSet(t, bubble.New(t), llm.Config{Account: "a", Preset: llm.OpenAI("m", 600, 200_000)})
			client := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
				header := http.Header{}
				for i, window := range [...]string{"Tokens", "Project-Tokens"} {
					header.Set("X-Ratelimit-Limit-"+window, "200000")
					header.Set("X-Ratelimit-Remaining-"+window, left[i])
					header.Set("X-Ratelimit-Reset-"+window, "1m0s")
				}
				return &http.Response{StatusCode: http.StatusOK, Header: header, Body: http.NoBody, Request: r}, nil
			})})
			response, err := client.Post("https://api.example/v1/chat/completions", "application/json", strings.NewReader(`{"max_tokens":100}`))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			state, err := set.Limits().Limits()[1].State(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, 6, state.Paused.Seconds(), 0.5, "left: %v", left)
		})
	}
}

// An empty name of a tenant fails its calls: else they would be calls of no tenant.
func TestATenantHasAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet(t, bubble.New(t), llm.Config{Account: "a", Preset: llm.OpenAI("m", 10, 1000)})
		_, err := set.Acquire(llm.Tenant(t.Context(), "", 3), llm.Estimate{Input: 1})
		require.ErrorIs(t, err, llm.ErrInvalid)
		require.ErrorContains(t, err, "flow: must have 1 to 256 bytes, got 0")
	})
}

// A fleet leaves an account alone whose credit is used up, and another Set of the chain makes its calls. Within a
// minute after the first account serves calls again, the fleet is back at it.
func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		first := newSet(t, b, llm.Config{Account: "first", Preset: llm.OpenAI("a", 600, 60_000)})
		second := newSet(t, b, llm.Config{Account: "second", Preset: llm.OpenAI("b", 600, 60_000)})
		chain := llm.Chain(first, second)
		picks := map[string]int{}
		calls := func(phase string) {
			for range 30 {
				pick, call, err := chain.Acquire(t.Context(), llm.Estimate{Input: 100, Output: 100, Max: 200}, 20*time.Second)
				require.NoError(t, err)
				call.Close()
				picks[fmt.Sprint(phase, " ", pick)]++
				time.Sleep(time.Second)
			}
		}
		calls("before")
		require.NoError(t, first.Stop(t.Context(), time.Time{}, "credits"))
		calls("stopped")
		require.NoError(t, first.Resume(t.Context()))
		time.Sleep(30 * time.Second)
		calls("after")
		assert.Equal(t, map[string]int{"before 0": 30, "stopped 1": 30, "after 0": 30}, picks)
		require.NoError(t, first.Stop(t.Context(), time.Time{}, "credits"))
		until := time.Now().Add(time.Hour).Truncate(time.Second)
		require.NoError(t, second.Stop(t.Context(), until, "DayQuota"))
		_, _, err := chain.Acquire(t.Context(), llm.Estimate{Input: 100}, 20*time.Second)
		var gone *llm.Exhausted
		require.ErrorAs(t, err, &gone)
		assert.Equal(t, "second/calls", gone.Scope)
		assert.Equal(t, "DayQuota", gone.Reason)
		assert.True(t, gone.Until.Equal(until))
	})
}

// The fleet shares what it has learned: the first call of a new process costs what calls of its route have used, and
// not the first guess of 16,500 * 1.2 tokens. A route that nobody has used costs that guess. Each process makes at
// most two trips in two seconds for it.
func TestLearnedCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		api, err := emulator.NewAnthropic(emulator.AnthropicConfig{Requests: 2000, Input: 1_500_000, Output: 300_000,
			Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
				return emulator.Answer{Input: 5_000, CacheRead: 9000, Output: 100, Wait: time.Second, PerSecond: 100}
			}}})
		require.NoError(t, err)
		body := `{"stream":true,"max_tokens":4096,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 13_200) + `"}]}`
		config := llm.Config{Account: "a", Preset: llm.Anthropic("claude-fable-5", llm.Build)}
		cost := func(set *llm.Set, path string) (input, output int) {
			base := baseFunc(func(r *http.Request) (*http.Response, error) {
				states, err := set.Limits().States(r.Context())
				require.NoError(t, err)
				input, output = 250_000-int(states[1].Stored), 50_000-int(states[2].Stored)
				return emulator.RoundTripper(api).RoundTrip(r)
			})
			response, err := set.Client(&http.Client{Transport: base}).Post("https://api.example"+path, "application/json", strings.NewReader(body))
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			time.Sleep(20 * time.Second) // the buckets are full
			return input, output
		}
		first := newSet(t, b, config)
		input, output := cost(first, "/v1/messages")
		assert.InDelta(t, 19_800, input, 500)
		assert.InDelta(t, 4096, output, 40) // all that it may produce
		for range 25 {
			cost(first, "/v1/messages")
		}
		input, output = cost(newSet(t, b, config), "/v1/messages")
		assert.InDelta(t, 5_000, input, 150)
		assert.InDelta(t, 100, output, 5)
		input, _ = cost(newSet(t, b, config), "/v1/other")
		assert.InDelta(t, 19_800, input, 500)
		fields, err := b.Client().HGetAll(t.Context(), "fleetpace:{a}/claude-fable-5:learned").Result()
		require.NoError(t, err)
		assert.Len(t, fields, 2)
	})
}

type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// foreign is a context that package context does not know.
type foreign struct {
	context.Context
	done chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

// A request that AWS has signed fails before its signature ends, with an error that says what to do. A stream that
// takes longer does not.
func TestSignedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		set := newSet(t, b, llm.Config{Account: "a", Preset: llm.Bedrock("m", 60_000)})
		long := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Minute)
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, r.Context().Err()
		})})
		do := func() error {
			r, err := http.NewRequestWithContext(foreign{t.Context(), make(chan struct{})}, http.MethodPost, "https://bedrock.example/model/m/converse", strings.NewReader(`{}`))
			require.NoError(t, err)
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=…")
			response, err := long.Do(r)
			if err == nil {
				_ = response.Body.Close()
			}
			return err
		}
		require.NoError(t, do()) // with a goroutine for each child of the context, which must end
		require.NoError(t, set.Limits().Pause(t.Context(), time.Hour, "test"))
		start := time.Now()
		require.ErrorContains(t, do(), "take the turn with Set.Acquire before the request is signed")
		assert.InDelta(t, 4*time.Minute, time.Since(start), float64(time.Second))
	})
}

// A refusal of one model that names no limit pauses that model. Other models of the account go on.
func TestRefusalOfOneModel(t *testing.T) {
	for name, answer := range map[string]struct{ header, value, text string }{
		"for a time":     {"Retry-After", "50", ""},
		"without a time": {"X", "", ""},
		"for a day":      {"X", "", "Rate limit reached on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				refuses := baseFunc(func(r *http.Request) (*http.Response, error) {
					body := fmt.Sprintf(`{"error":{"message":%q,"type":"rate_limit_error","code":"rate_limit_exceeded"}}`, answer.text)
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{answer.header: {answer.value}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
				})
				one := newSet(t, b, llm.Config{Account: "a", Preset: llm.OpenAI("one", 600, 200_000)})
				other := newSet(t, b, llm.Config{Account: "a", Preset: llm.OpenAI("other", 600, 200_000)})
				response, err := one.Client(&http.Client{Transport: refuses}).Post("https://api.example/v1/chat/completions", "application/json", strings.NewReader(`{}`))
				require.NoError(t, err)
				_ = response.Body.Close()
				start := time.Now()
				call, err := other.Acquire(t.Context(), llm.Estimate{Input: 100})
				require.NoError(t, err)
				call.Done()
				assert.Less(t, time.Since(start), time.Second/2, "the other model")
				call, err = one.Acquire(t.Context(), llm.Estimate{Input: 100})
				var gone *llm.Exhausted
				if answer.text != "" {
					require.ErrorAs(t, err, &gone)
					assert.Equal(t, "a/one/requests", gone.Scope)
					assert.InDelta(t, 432, gone.Until.Sub(start).Seconds(), 1)
					return
				}
				require.NoError(t, err)
				call.Done()
				assert.Greater(t, time.Since(start), time.Second/2, "the model itself")
			})
		})
	}
}

// An account whose quota of a day is used up is asked once in five minutes if nobody knows when it goes on.
func TestDayQuotaWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		api, err := emulator.NewOpenAI(emulator.OpenAIConfig{Requests: 6000, Tokens: 2_000_000, Daily: 20, Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer { return emulator.Answer{Input: 100, Output: 10} }}})
		require.NoError(t, err)
		client := newSet(t, b, llm.Config{Account: "a", Preset: llm.OpenAI("m", 6000, 2_000_000)}).Client(&http.Client{Transport: emulator.RoundTripper(api)})
		for start := time.Now(); time.Since(start) < 31*time.Minute; time.Sleep(time.Second) {
			if response, err := client.Post("https://api.example/v1/chat/completions", "application/json", strings.NewReader(`{"max_tokens":100}`)); err == nil {
				_ = response.Body.Close()
			} else {
				var gone *llm.Exhausted
				require.ErrorAs(t, err, &gone)
			}
		}
		assert.Equal(t, 20, api.Report().Admitted)
		assert.LessOrEqual(t, refusals(api.Report()), 1+6)
	})
}

// The quota of a day stops one model until midnight of the Pacific coast, although the refusal says 26 s. Other models
// of the account go on. After midnight the fleet goes on without a probe.
func TestDayQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		time.Sleep(time.Until(time.Date(2000, 4, 2, 9, 0, 0, 0, time.UTC))) // a day of 23 hours, as the clocks change
		api, err := emulator.NewGemini(emulator.GeminiConfig{Requests: 600, Input: 200_000, Daily: 20,
			Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer { return emulator.Answer{Input: 100, Output: 10} }}})
		require.NoError(t, err)
		other := newSet(t, b, llm.Config{Account: "a", Preset: llm.Gemini("other", 600, 200_000)})
		midnight := time.Date(2000, 4, 3, 7, 0, 0, 0, time.UTC)
		var calls sync.WaitGroup
		for range 2 {
			set := newSet(t, b, llm.Config{Account: "a", Preset: llm.Gemini("m", 600, 200_000)})
			client := set.Client(&http.Client{Transport: emulator.RoundTripper(api)})
			for range 3 {
				calls.Go(func() {
					for time.Now().Before(midnight) {
						response, err := client.Post("https://api.example/v1beta/models/m:generateContent", "application/json", strings.NewReader(`{}`))
						var gone *llm.Exhausted
						if errors.As(err, &gone) {
							assert.InDelta(t, 0, gone.Until.Sub(midnight), float64(2*time.Second))
							assert.Equal(t, "a/m/requests", gone.Scope)
							time.Sleep(time.Until(gone.Until) + time.Second)
							response, err = client.Post("https://api.example/v1beta/models/m:generateContent", "application/json", strings.NewReader(`{}`))
						}
						if assert.NoError(t, err) {
							_, _ = io.Copy(io.Discard, response.Body)
							_ = response.Body.Close()
						}
					}
				})
			}
		}
		time.Sleep(time.Minute)
		report := api.Report()
		t.Logf("%d calls of 20, %v refused, %d after the first refusal", report.Admitted, report.Refused, report.AfterStop)
		assert.Equal(t, 20, report.Admitted)
		assert.LessOrEqual(t, report.Refused["RESOURCE_EXHAUSTED"]+report.Refused["429"], 6)
		call, err := other.Acquire(t.Context(), llm.Estimate{Input: 100})
		require.NoError(t, err)
		call.Done()
		calls.Wait()
		assert.Greater(t, api.Report().Admitted, 20)
	})
}
