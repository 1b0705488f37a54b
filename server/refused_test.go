package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// A refusal pauses or stops the limits by the rules of its provider, and its caller learns what to tell its SDK.
func TestRefused(t *testing.T) {
	const spent = `{"error":{"code":"insufficient_quota","message":"You exceeded your current quota."}}`
	for name, c := range map[string]struct {
		api    string
		status int
		header string
		body   string
		paused time.Duration // of each limit
		stops  bool
		says   string
	}{
		"a time":                    {"anthropic", 429, `"retry-after":"7"`, "", 7 * time.Second, false, `{"retry_after_ms":1}`},
		"no time":                   {"openai", 429, "", `{"error":{"code":"rate_limit_exceeded"}}`, time.Second, false, `{"retry_after_ms":1}`},
		"a time in the body":        {"gemini", 429, "", `{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"9s"}]}}`, 9 * time.Second, false, `{"retry_after_ms":1}`},
		"no number":                 {"anthropic", 529, `"retry-after-ms":"NaN"`, "", 0, false, `{}`},
		"no capacity":               {"anthropic", 529, "", `{"error":{"type":"overloaded_error"}}`, 0, false, `{}`},
		"no capacity for a time":    {"anthropic", 529, `"retry-after":"5"`, `{"error":{"type":"overloaded_error"}}`, 5 * time.Second, false, `{"retry_after_ms":1}`},
		"too fast":                  {"openai", 503, "", `{"error":{"code":"slow_down"}}`, time.Second, false, `{"retry_after_ms":1}`},
		"a wrong request":           {"anthropic", 400, "", `{"error":{"type":"invalid_request_error"}}`, 0, false, `{"retry":false}`},
		"a wrong key":               {"anthropic", 401, "", `{"error":{"type":"authentication_error"}}`, 0, false, `{"retry":false}`},
		"no credit":                 {"openai", 429, "", spent, 24 * time.Hour, true, `{"retry":false}`},
		"no credit, by the status":  {"anthropic", 402, "", "", 24 * time.Hour, true, `{"retry":false}`},
		"a failure in a stream":     {"anthropic", 200, "", `{"type":"error","error":{"type":"rate_limit_error"}}`, time.Second, false, `{}`},
		"no credit within a stream": {"openai", 200, "", spent, 24 * time.Hour, true, `{}`},
		"no failure":                {"openai", 200, "", `{"usage":{}}`, 0, false, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, bubble.New(t), server.Config{})
				w := post(t, s, "/v1/refused", refused("both-a", c.api, c.status, c.header, c.body))
				require.Equal(t, http.StatusOK, w.Code, w.Body)
				require.JSONEq(t, c.says, w.Body.String())
				now := body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/both-a", "")))
				require.InDelta(t, ms(c.paused), now.Paused, 1000)
				if c.paused > 0 {
					require.Contains(t, now.Reason, "api.example answered "+fmt.Sprint(c.status))
				}
				if allowed := post(t, s, "/v1/allow", wants("both-a")); c.stops {
					require.Contains(t, allowed.Body.String(), `"scope":"both/both-a"`)
				} else {
					require.NotContains(t, allowed.Body.String(), `"scope"`)
				}
			})
		})
	}
}

func refused(limit, api string, status int, header, body string) string {
	text, _ := json.Marshal(body)
	return fmt.Sprintf(`{"limits":[{"name":%q}],"api":%q,"status":%d,"headers":{%s},"body":%s,"host":"api.example","ago":"10ms"}`, limit, api, status, header, text)
}

// Refusals without a time double the pause, until calls have gone on for as long.
func TestRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		for _, c := range []struct{ after, paused time.Duration }{{0, 1}, {1, 2}, {2, 4}, {4, 8}, {20, 1}} {
			time.Sleep(c.after*time.Second + 20*time.Millisecond)
			post(t, s, "/v1/refused", refused("api", "openai", 429, "", "{}"))
			now := body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/api", "")))
			require.InDelta(t, ms(c.paused*time.Second), now.Paused, 100)
		}
	})
}

// Slots beside other limits are those of the account: a stop of the account stops them alone, and a pause pauses the
// others.
func TestRefusedForTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		limits := `{"limits":[{"name":"rate"},{"name":"ten"}],"api":"openai","status":429`
		paused := func(name string) time.Duration {
			return time.Duration(body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/"+name, ""))).Paused * float64(time.Millisecond))
		}
		post(t, s, "/v1/refused", limits+`,"headers":{"retry-after":"7"}}`)
		require.Positive(t, paused("rate"))
		require.Zero(t, paused("ten"))
		post(t, s, "/v1/refused", limits+`,"body":"{\"error\":{\"code\":\"insufficient_quota\"}}"}`)
		require.Less(t, paused("rate"), time.Minute)
		require.Greater(t, paused("ten"), time.Hour)
	})
}

// The problem of a call names the command that ends the stop of all limits of the refused call.
func TestRefusedAtSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		both := `{"limits":[{"name":"both-a"},{"name":"both-b"}]`
		require.Equal(t, http.StatusOK, post(t, s, "/v1/refused", both+`,"api":"anthropic","status":402}`).Code)
		w := post(t, s, "/v1/wait", both+"}")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Contains(t, w.Body.String(), `this ends the stop: fleetpace resume both"`)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/resume", both+"}").Code)
		require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", both+"}").Code)
	})
}

// A refusal of a call that was sent before a stop ended is no other stop.
func TestRefusedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		stopped := func() bool { return body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/api", ""))).Paused > 0 }
		post(t, s, "/v1/refused", refused("api", "anthropic", 402, "", ""))
		require.True(t, stopped())
		time.Sleep(time.Minute)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/resume", wants("api")).Code)
		time.Sleep(time.Second)
		post(t, s, "/v1/refused", `{"limits":[{"name":"api"}],"api":"anthropic","status":402,"ago":"30s"}`)
		require.False(t, stopped())
		post(t, s, "/v1/refused", refused("api", "anthropic", 402, "", ""))
		require.True(t, stopped())
	})
}

// A worker stops a limit for an hour at most. An operator stops it until the provider serves again.
func TestLongestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(path, []byte("turns worker\noperate both\nturns both\n"), 0o600))
		s := newSite(t, bubble.New(t), server.Config{TokenFile: path})
		as := func(token, method, path, content string) *httptest.ResponseRecorder {
			r := request(t, method, path, content)
			r.Header.Set("Authorization", "Bearer "+token)
			return do(t, s, r)
		}
		for limit, token := range map[string]string{"api": "worker", "slow": "both"} {
			longest := map[string]time.Duration{"worker": time.Hour, "both": 24 * time.Hour}[token]
			require.Equal(t, http.StatusOK, as(token, http.MethodPost, "/v1/refused", refused(limit, "anthropic", 402, "", "")).Code)
			require.InDelta(t, ms(longest), body(t, as(token, http.MethodGet, "/v1/limits/"+limit, "")).Paused, 2000, token)
		}
	})
}

func TestRefusedWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		for field, content := range map[string]string{
			"api":    wants("api", `"api":"none"`, `"status":429`),
			"status": wants("api", `"api":"openai"`, `"status":99`),
			"ago":    wants("api", `"api":"openai"`, `"status":429`, `"ago":"soon"`),
			"host":   wants("api", `"api":"openai"`, `"status":429`, fmt.Sprintf(`"host":"%0201d"`, 0)),
		} {
			w := post(t, s, "/v1/refused", content)
			require.Equal(t, http.StatusBadRequest, w.Code)
			require.Equal(t, field, body(t, w).Field)
		}
	})
}

// A call with an id that waits as its limit is stopped is booked when its poll ends, and its caller is told when to come back.
func TestAStopWhileACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		s := newSite(t, b, server.Config{})
		api := b.Limiter(b.Client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(10)})
		require.NoError(t, api.Wait(t.Context()))
		require.NoError(t, api.Pause(t.Context(), time.Second, ""))
		time.AfterFunc(500*time.Millisecond, func() { assert.NoError(t, api.Stop(context.Background(), time.Now().Add(2*time.Hour), "no credit")) })
		for range 2 {
			w := post(t, s, "/v1/wait", wants("api", `"id":"x"`, `"poll":"2s"`))
			require.Equal(t, http.StatusAccepted, w.Code, w.Body)
			require.InDelta(t, ms(time.Minute), body(t, w).Retry, 100)
			require.Contains(t, w.Body.String(), `"reason":"no credit"`)
		}
		require.NoError(t, api.Resume(t.Context()))
		require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("api", `"id":"x"`)).Code)
	})
}

// At a stop, a caller that does not wait learns which limit is stopped, why, and until when.
func TestStopsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		s := newSite(t, b, server.Config{})
		api := b.Limiter(b.Client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(10)})
		require.NoError(t, api.Stop(t.Context(), time.Now().Add(2*time.Hour), "no credit"))
		for path, content := range map[string]string{"/v1/allow": wants("api"), "/v1/wait": wants("api", `"id":"x"`, `"poll":"0s"`)} {
			var told struct {
				Scope, Reason string
				Until         time.Time
			}
			w := post(t, s, path, content)
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &told))
			require.Equal(t, "api", told.Scope, w.Body)
			require.Equal(t, "no credit", told.Reason)
			require.WithinDuration(t, time.Now().Add(2*time.Hour), told.Until, 2*time.Second)
		}
	})
}
