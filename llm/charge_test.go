package llm_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
	"github.com/fleetpace/fleetpace/reserve"
)

// answers returns a base that answers each request with a text.
func answers(text string) *http.Client {
	return &http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"application/json"}}
		if strings.HasPrefix(text, "data:") {
			header.Set("Content-Type", "text/event-stream")
		}
		return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	})}
}

func send(t *testing.T, client *http.Client, method, path, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://api.example"+path, strings.NewReader(body))
	require.NoError(t, err)
	response, err := client.Do(r)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	synctest.Wait()
	return response
}

// A call that costs more than the burst is charged in full, also if its response does not say what it used.
func TestCostAboveTheBurst(t *testing.T) {
	for name, preset := range map[string]llm.Preset{"larger": llm.OpenAI("m", 500, 30_000), "sum": {
		API: llm.Azure("m", 1).API, Model: "m", Tokens: 30_000, Counting: llm.CountSum,
	}} {
		for _, stated := range []bool{false, true} {
			for _, hand := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, stated %t, by hand %t", name, stated, hand), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						b := bubble.New(t)
						set := newSet(t, b, llm.Config{Account: "a", Preset: preset})
						if hand {
							call, err := set.Acquire(t.Context(), llm.Estimate{Max: 16_000})
							require.NoError(t, err)
							if stated {
								call.Saw(llm.Usage{Input: 10, Output: 20})
							}
							call.Close()
							synctest.Wait()
						} else {
							text := `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"
							if stated {
								text += `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":20}}` + "\n\n"
							}
							send(t, set.Client(answers(text+"data: [DONE]\n\n")), http.MethodPost, "/v1/chat/completions", `{"stream":true,"max_tokens":16000}`)
						}
						start := time.Now()
						call, err := set.Acquire(t.Context(), llm.Estimate{Max: 5000})
						require.NoError(t, err)
						call.Close()
						t.Logf("the next call waited %v", time.Since(start))
						assert.InDelta(t, 32, time.Since(start).Seconds(), 0.5) // 16,000 of 500 a second
					})
				})
			}
		}
	}
}

// A preset that limits requests alone has nothing to settle, and says nothing.
func TestRequestsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		var log bytes.Buffer
		set, err := llm.New(b.Client(), llm.Config{Account: "a", Preset: llm.Groq("m", 60, 0), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
		require.NoError(t, err)
		send(t, set.Client(answers(`{"usage":{"prompt_tokens":10,"completion_tokens":20}}`)), http.MethodPost, "/v1/chat/completions", `{}`)
		call, err := set.Acquire(t.Context(), llm.Estimate{})
		require.NoError(t, err)
		call.Saw(llm.Usage{Input: 10})
		call.Done()
		set.Close()
		assert.Empty(t, log.String())
	})
}

// inputOf returns what the next request of a path reserves of the prompts' limit, as a part of its bytes / 4, and of
// the answers' limit.
func inputOf(t *testing.T, set *llm.Set, path string) (ratio float64, output int) {
	t.Helper()
	time.Sleep(time.Minute) // the buckets are full
	body := `{"messages":[{"content":"` + strings.Repeat("word ", 1600) + `"}]}`
	base := baseFunc(func(r *http.Request) (*http.Response, error) {
		states, err := set.Limits().States(r.Context())
		require.NoError(t, err)
		ratio = (float64(states[1].Limit.MaxBurst()) - states[1].Stored) / 2000
		output = states[2].Limit.MaxBurst() - int(states[2].Stored)
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	send(t, set.Client(&http.Client{Transport: base}), http.MethodPost, path, body)
	return ratio, output
}

// One odd call, or odd values in Redis, change the estimates of later calls by little.
func TestOddUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		preset := llm.Anthropic("m", llm.Scale)
		key := "fleetpace:{a}/m:learned"
		client := b.Client()
		require.NoError(t, client.HSet(t.Context(), key, "/v1/inf", "+Inf 200 +Inf 200", "/v1/nan", "NaN 200 NaN 200", "/v1/many", "1 NaN 100 NaN", "/v1/large", "1e30 200 1e30 200").Err())
		set := newSet(t, b, llm.Config{Account: "a", Preset: preset})
		answer := `{"usage":{"input_tokens":%d,"output_tokens":%d}}`
		for range 25 {
			send(t, set.Client(answers(fmt.Sprintf(answer, 20, 50))), http.MethodPost, "/v1/messages", `{"max_tokens":1000,"a":"`+strings.Repeat("word ", 11)+`"}`)
		}
		send(t, set.Client(answers(fmt.Sprintf(answer, 900_000, 900_000))), http.MethodPost, "/v1/messages", `{"max_tokens":1000}`)
		ratio, output := inputOf(t, set, "/v1/messages")
		t.Logf("after one odd call: %.2f tokens for four bytes, %d of output", ratio, output)
		assert.InDelta(t, 1.1, ratio, 0.2)
		assert.InDelta(t, 86, output, 10)
		for _, c := range []struct {
			path  string
			ratio float64
		}{{"/v1/inf", 4}, {"/v1/nan", 1.2}, {"/v1/many", 1.2}, {"/v1/large", 4}} {
			ratio, output = inputOf(t, set, c.path)
			t.Logf("%s: %.2f, %d", c.path, ratio, output)
			assert.InDelta(t, c.ratio, ratio, 0.1, c.path)
			assert.Positive(t, output, c.path)
		}
	})
}

// A body that its client cannot read again is estimated, and sent again after a refusal.
func TestBodyOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		set := newSet(t, b, llm.Config{Account: "a", Preset: llm.Azure("m", 1_000_000), Retries: 1})
		body := `{"max_tokens":1000,"a":"` + strings.Repeat("word ", 800) + `"}`
		var levels []float64
		client := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
			got, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, body, string(got))
			states, err := set.Limits().States(r.Context())
			require.NoError(t, err)
			levels = append(levels, float64(states[1].Limit.MaxBurst())-states[1].Stored)
			status := []int{429, 200}[len(levels)-1]
			return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody, Request: r}, nil
		})})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example/openai/deployments/m/chat/completions", struct{ io.Reader }{strings.NewReader(body)})
		require.NoError(t, err)
		r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"a"}}
		response, err := client.Do(r)
		require.NoError(t, err)
		_ = response.Body.Close()
		assert.Equal(t, 200, response.StatusCode)
		if assert.Len(t, levels, 2) {
			assert.InDelta(t, 2000, levels[0], 20)
		}
	})
}

// A call that costs more than a lowered limit allows at once is charged in full, nevertheless.
func TestLoweredLimit(t *testing.T) {
	for _, hand := range []bool{false, true} {
		t.Run(fmt.Sprint("by hand ", hand), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				set := newSet(t, b, llm.Config{Account: "a", Preset: llm.OpenAI("m", 0, 60_000)})
				client := set.Client(answers(`{"usage":{"prompt_tokens":10,"completion_tokens":20}}`))
				use := func() {
					if !hand {
						send(t, client, http.MethodPost, "/v1/chat/completions", `{"max_tokens":6000}`)
						return
					}
					call, err := set.Acquire(t.Context(), llm.Estimate{Max: 6000})
					require.NoError(t, err)
					call.Saw(llm.Usage{Input: 10, Output: 20})
					call.Done()
					synctest.Wait()
				}
				use()
				start := time.Now()
				require.NoError(t, set.Limits().Limits()[0].SetLimit(t.Context(), reserve.PerMinute(30_000).Burst(2000), 0))
				for range 5 {
					use()
				}
				assert.InDelta(t, 60, time.Since(start).Seconds(), 12.5) // 5 calls of 6,000
			})
		})
	}
}

// A failed call costs what the provider counts for it: all that it has reserved, also above the burst, or nothing.
func TestFailedCalls(t *testing.T) {
	counts := llm.OpenAI("m", 0, 60_000)
	free := counts
	free.FailedCounts = false
	for name, c := range map[string]struct {
		preset llm.Preset
		waits  float64
	}{"counts": {counts, 24}, "free": {free, 0}, "Groq": {llm.Groq("m", 0, 60_000), 0}, "Gemini": {llm.Gemini("m", 0, 60_000), 1}} {
		for _, hand := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", by hand ", hand), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := bubble.New(t)
					set := newSet(t, b, llm.Config{Account: "a", Preset: c.preset})
					if hand {
						call, err := set.Acquire(t.Context(), llm.Estimate{Input: 1000, Max: 24_000})
						require.NoError(t, err)
						call.Failed()
						call.Close()
						synctest.Wait()
					} else {
						client := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
							return &http.Response{StatusCode: 500, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
						})})
						send(t, client, http.MethodPost, "/v1/chat/completions", `{"max_tokens":24000,"a":"`+strings.Repeat("word ", 667)+`"}`)
					}
					start := time.Now()
					call, err := set.Acquire(t.Context(), llm.Estimate{Input: 10_000, Output: 1, Max: 10_000})
					require.NoError(t, err)
					call.Close()
					assert.InDelta(t, c.waits, time.Since(start).Seconds(), 0.3)
				})
			})
		}
	}
}

// A call by hand that probes a stop ends it if it was served, and not otherwise.
func TestProbeByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		set := newSet(t, b, llm.Config{Account: "a", Preset: llm.Gemini("m", 0, 60_000)})
		require.NoError(t, set.Stop(t.Context(), time.Time{}, "credits"))
		for i, end := range []func(*llm.Call){(*llm.Call).Close, (*llm.Call).Done, (*llm.Call).Failed, func(c *llm.Call) {
			c.Saw(llm.Usage{Input: 1})
			c.Close()
		}, func(c *llm.Call) {
			c.Saw(llm.Usage{Input: 1})
			c.Done()
		}} {
			time.Sleep(6 * time.Minute)
			call, err := set.Acquire(t.Context(), llm.Estimate{Input: 1})
			require.NoError(t, err)
			assert.True(t, call.Probes())
			end(call)
			synctest.Wait()
			call, err = set.Acquire(t.Context(), llm.Estimate{Input: 1})
			if i < 4 {
				require.ErrorIs(t, err, llm.ErrExhausted)
				continue
			}
			require.NoError(t, err)
			call.Close()
		}
	})
}

// A part of the limit stays the same part of a lower limit that responses state.
func TestShareOfStatedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		set := newSet(t, b, llm.Config{Account: "a", Preset: llm.OpenAI("m", 1000, 100_000), Share: 0.8})
		client := &http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
			header := http.Header{"X-Ratelimit-Limit-Tokens": {"15000"}, "X-Ratelimit-Remaining-Tokens": {"14750"}, "X-Ratelimit-Reset-Tokens": {"1s"}}
			return &http.Response{StatusCode: 200, Header: header, Body: http.NoBody, Request: r}, nil
		})}
		send(t, set.Client(client), http.MethodPost, "/v1/chat/completions", `{"max_tokens":10}`)
		states, err := set.Limits().States(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 15*800, states[1].Rate*60, 1)
		assert.Equal(t, 15*800, states[1].Burst)
	})
}

// A call that was estimated while nothing was known costs what is known when it has its turn.
func TestEstimateAtTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		preset := llm.Anthropic("m", llm.Build)
		preset.Output = 60_000
		set := newSet(t, bubble.New(t), llm.Config{Account: "a", Preset: preset})
		client := set.Client(&http.Client{Transport: baseFunc(func(r *http.Request) (*http.Response, error) {
			time.Sleep(40 * time.Second)
			return answers(`{"usage":{"input_tokens":20,"output_tokens":1000}}`).Transport.RoundTrip(r)
		})})
		start := time.Now()
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				response, err := client.Post("https://api.example/v1/messages", "application/json", strings.NewReader(`{"max_tokens":8192}`)) //nolint:noctx // it ends by itself
				if assert.NoError(t, err) {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		}
		all.Wait()
		t.Logf("40 calls took %v", time.Since(start))
		assert.Less(t, time.Since(start), 3*time.Minute) // 9 calls are sent until five answers are known, and then one each second
	})
}
