package transport_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// What each class of refusal does to the limits, to the transport's own retries, and to an SDK.
func TestRefusals(t *testing.T) {
	const again, never = "Retry-After-Ms: 1", "X-Should-Retry: false"
	openAI := func(kind, code, message string) string {
		return fmt.Sprintf(`{"error":{"type":%q,"code":%q,"message":%q}}`, kind, code, message)
	}
	for _, c := range []struct {
		name   string
		api    bodies.API
		answer reply
		body   string
		paused [2]time.Duration // of requests and of tokens
		steers string
		times  int // with three retries of the transport's own
	}{
		{"wait, as the header says", bodies.OpenAI, reply{429, "Retry-After: 7"}, openAI("", "rate_limit_exceeded", "try again in 5s"), [2]time.Duration{7 * time.Second, 7 * time.Second}, again, 4},
		{"wait, as the body says", bodies.OpenAI, reply{429, ""}, openAI("", "rate_limit_exceeded", "Please try again in 5.5s."), [2]time.Duration{5500 * time.Millisecond, 5500 * time.Millisecond}, again, 4},
		{"wait, for the limit that the body names", bodies.OpenAI, reply{429, ""}, openAI("tokens", "rate_limit_exceeded", "Please try again in 5.5s."), [2]time.Duration{0, 5500 * time.Millisecond}, again, 4},
		{"wait, for the limit that the body names and the time of the header", bodies.OpenAI, reply{429, "Retry-After: 7"}, openAI("requests", "rate_limit_exceeded", ""), [2]time.Duration{7 * time.Second, 0}, again, 4},
		{"wait, until nobody says when", bodies.OpenAI, reply{429, ""}, openAI("tokens", "rate_limit_exceeded", ""), [2]time.Duration{time.Second, time.Second}, again, 4},
		{"alone", bodies.Anthropic, reply{529, ""}, `{"error":{"type":"overloaded_error"}}`, [2]time.Duration{}, "", 1},
		{"alone, with 429", bodies.Azure, reply{429, ""}, openAI("", "429", "The system is experiencing high demand"), [2]time.Duration{}, "", 1},
		{"slow", bodies.OpenAI, reply{429, ""}, openAI("rate_limit_error", "slow_down", ""), [2]time.Duration{time.Second, time.Second}, again, 4},
		{"never", bodies.OpenAI, reply{429, ""}, openAI("tokens", "rate_limit_exceeded", "Request too large"), [2]time.Duration{}, never, 1},
		{"never, because it is wrong", bodies.OpenAI, reply{400, ""}, openAI("", "context_length_exceeded", ""), [2]time.Duration{}, never, 1},
		{"stop, for as long as nobody knows better", bodies.OpenAI, reply{429, ""}, openAI("insufficient_quota", "credit_balance_exhausted", ""), [2]time.Duration{24 * time.Hour, 24 * time.Hour}, never, 1},
		{"stop, until the day ends", bodies.Gemini, reply{429, ""}, `{"error":{"code":429,"details":[{"retryDelay":"26s"},{"violations":[{"quotaId":"RequestsPerDay"}]}]}}`,
			[2]time.Duration{8 * time.Hour, 8 * time.Hour}, never, 1},
		{"stop, with status 400", bodies.Anthropic, reply{400, ""}, `{"error":{"message":"Your credit balance is too low"}}`, [2]time.Duration{24 * time.Hour, 24 * time.Hour}, never, 1},
		{"stop of a key stops nobody else", bodies.Anthropic, reply{401, ""}, `{"error":{"type":"authentication_error"}}`, [2]time.Duration{}, never, 1},
		{"no rules", "", reply{429, "Retry-After: 7"}, openAI("insufficient_quota", "insufficient_quota", ""), [2]time.Duration{7 * time.Second, 7 * time.Second}, "", 4},
		{"all is well", bodies.OpenAI, reply{200, ""}, `{"choices":[]}`, [2]time.Duration{}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bubble.New(t)
				all := b.Joint(b.Client(), reserve.Config{Name: "requests", Group: "g", Limit: reserve.PerSecond(1000).Burst(100)},
					reserve.Config{Name: "tokens", Group: "g", Limit: reserve.PerSecond(1000).Burst(100)})
				base := &script{answers: []reply{c.answer}, body: c.body}
				config := transport.Config{Base: base, API: c.api, MaxPause: time.Hour, Choose: func(*http.Request) (transport.Need, error) {
					return transport.Need{Limiter: all, Windows: []string{"requests", "tokens"}}, nil
				}}
				if strings.Contains(c.name, "day") {
					config.MaxPause = 24 * time.Hour
				}
				response, err := newTransport(t, config).RoundTrip(newRequest(t, http.MethodPost, "https://api.example/", nil))
				require.NoError(t, err)
				text, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				assert.Equal(t, c.body, string(text), "the caller gets all of it")
				for i, l := range all.Limits() {
					state, err := l.State(t.Context())
					require.NoError(t, err)
					assert.InDelta(t, c.paused[i], state.Paused, float64(time.Millisecond), l.Name())
				}
				var steers []string
				for _, name := range []string{"Retry-After-Ms", "X-Should-Retry"} {
					if v := response.Header.Get(name); v != "" {
						steers = append(steers, name+": "+v)
					}
				}
				assert.Equal(t, c.steers, strings.Join(steers, "\n"))

				base = &script{answers: []reply{c.answer}, body: c.body}
				config.Base, config.Retry = base, transport.Retry{Max: 3, MaxWait: time.Minute}
				require.NoError(t, all.Resume(t.Context()))
				do(t, newTransport(t, config), newRequest(t, http.MethodGet, "https://api.example/", nil))
				assert.Equal(t, c.times, base.times(), "retries")
			})
		})
	}
}

// A failure that a body of status 200 reports pauses the limit when the caller has read it, and not before.
func TestRefusalsIn200(t *testing.T) {
	const stopped = 24 * time.Hour
	for _, c := range []struct {
		name, kind, body string
		api              bodies.API
		paused           time.Duration
	}{
		{"a stream that is refused", "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"input tokens\"}}\n\n", bodies.Anthropic, time.Second},
		{"a stream that is overloaded", "text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", bodies.Anthropic, 0},
		{"a response that failed", "text/event-stream", "event: response.failed\ndata: {\"response\":{\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"try again in 9s\"}}}\n\n", bodies.OpenAI, 9 * time.Second},
		{"a stream without credit", "text/event-stream", "data: {\"error\":{\"code\":\"insufficient_quota\"}}\n\n", bodies.OpenAI, stopped},
		{"a throttled query", "application/json", `{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":101,"throttleStatus":{"currentlyAvailable":1,"restoreRate":50}}}}`, bodies.Shopify, 2 * time.Second},
		{"a query that is too dear", "application/json", `{"errors":[{"extensions":{"code":"MAX_COST_EXCEEDED"}}]}`, bodies.Shopify, 0},
		{"all is well", "application/json", `{"data":{"error":{"code":"THROTTLED"}}}`, bodies.Shopify, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := fast(t)
				paced := newTransport(t, transport.Config{API: c.api, Limiter: limiter, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(bytes.NewReader([]byte(c.body))), Request: r}, nil
				})})
				response, err := paced.RoundTrip(newRequest(t, http.MethodPost, "https://api.example/", nil))
				require.NoError(t, err)
				synctest.Wait()
				assert.Empty(t, limiter.pauses())
				_, err = io.Copy(io.Discard, response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				time.Sleep(100 * time.Millisecond)
				if c.paused == 0 {
					assert.Empty(t, limiter.pauses())
					return
				}
				if c.paused == stopped {
					state, err := limiter.State(t.Context())
					require.NoError(t, err)
					assert.True(t, state.Stopped)
					return
				}
				require.Len(t, limiter.pauses(), 1)
				assert.Equal(t, c.paused, limiter.pauses()[0].For)
			})
		})
	}
}
