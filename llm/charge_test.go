package llm_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/llm"
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
