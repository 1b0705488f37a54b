package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/server"
)

// bodies are one of each operation that has one.
var bodies = map[string]string{
	"POST /v1/wait":       wants("api"),
	"POST /v1/leave":      wants("api", `"id":"a"`),
	"POST /v1/allow":      wants("api"),
	"POST /v1/settle":     `{"turn":"x","used":[1]}`,
	"POST /v1/release":    `{"turn":"x"}`,
	"POST /v1/renew":      `{"turn":"x"}`,
	"POST /v1/pause":      wants("api", `"for":"1s"`),
	"POST /v1/resume":     wants("api"),
	"POST /v1/refused":    wants("api", `"api":"openai"`, `"status":429`),
	"PUT /v1/limits/api":  `{"limit":"5/s"}`,
	"DELETE /v1/limits/x": "", "GET /v1/limits/x": "", "GET /v1/limits": "", "GET /v1/openapi.yaml": "",
}

// Fields that are wrong are named, with their values, and nothing is taken.
func TestWrongFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		limits := func(list string) string { return `{"limits":[` + list + `]}` }
		for _, c := range []struct {
			operation, body, field string
			status                 int
		}{
			{"POST /v1/wait", `{`, "body", 400},
			{"POST /v1/wait", `[]`, "body", 400},
			{"POST /v1/wait", wants("api") + "{}", "body", 400},
			{"POST /v1/wait", wants("api", `"extra":1`), "extra", 400},
			{"POST /v1/wait", wants("api", `"Poll":"1s"`), "Poll", 400},
			{"POST /v1/wait", wants("api", `"\u0050oll":"1s"`), "Poll", 400},
			{"POST /v1/wait", wants("api", `"ſhare":"x"`), "ſhare", 400},
			{"POST /v1/wait", wants("api", `"poll":"1s"`, `"poll":"2s"`), "poll", 400},
			{"POST /v1/wait", wants("api", `"flow":"\xff"`), "body", 400},
			{"POST /v1/wait", limits(`{"name":"api"}, {"name":"api", "NAME" : "slow"}`), "limits[1].NAME", 400},
			{"POST /v1/wait", limits(`{"name":"api","cost":1,"n\u0061me":"slow"}`), "limits[0].name", 400},
			{"POST /v1/wait", limits(`{"name":"shops","key":{"Shop":"a]},\"","Shop":"b"}}`), "limits[0].key.Shop", 400},
			{"PUT /v1/limits/api", `{"limit":"5/s","Limit":"9/s"}`, "Limit", 400},
			{"POST /v1/wait", `{}`, "limits", 400},
			{"POST /v1/wait", limits(strings.Repeat(`{"name":"api"},`, 8) + `{"name":"api"}`), "limits", 400},
			{"POST /v1/wait", limits(`{"name":"api"},{"name":"api"}`), "limits", 400},
			{"POST /v1/wait", limits(`{"name":"api"},{"name":"slow"}`), "limits", 400},
			{"POST /v1/wait", limits(`{"name":""}`), "limits[0].name", 400},
			{"POST /v1/wait", limits(`{"name":"none"}`), "limits[0].name", 404},
			{"POST /v1/wait", limits(`{"name":"api","cost":0}`), "limits[0].cost", 400},
			{"POST /v1/wait", limits(`{"name":"api","cost":2}`), "limits[0].cost", 400},
			{"POST /v1/wait", limits(`{"name":"api","cost":1.5}`), "limits[0].cost", 400},
			{"POST /v1/wait", limits(`{"name":"api","cost":1e30}`), "limits[0].cost", 400},
			{"POST /v1/wait", limits(`{"name":"api","key":"x"}`), "limits[0].key", 400},
			{"POST /v1/wait", limits(`{"name":"hosts"}`), "limits[0].key", 400},
			{"POST /v1/wait", limits(`{"name":"hosts","key":""}`), "limits[0].key", 400},
			{"POST /v1/wait", limits(`{"name":"hosts","key":7}`), "limits[0].key", 400},
			{"POST /v1/wait", limits(`{"name":"hosts","key":"` + strings.Repeat("x", 600) + `"}`), "limits[0].key", 400},
			{"POST /v1/wait", limits(`{"name":"shops","key":"x"}`), "limits[0].key", 400},
			{"POST /v1/wait", limits(`{"name":"shops","key":{"shop":"x"}}`), "limits[0].key", 400},
			{"POST /v1/wait", wants("tenants"), "flow", 400},
			{"POST /v1/wait", wants("api", `"weight":0`), "weight", 400},
			{"POST /v1/wait", wants("api", `"weight":1e7`), "weight", 400},
			{"POST /v1/wait", wants("api", `"max_wait":"soon"`), "max_wait", 400},
			{"POST /v1/wait", wants("api", `"max_wait":"-1s"`), "max_wait", 400},
			{"POST /v1/wait", wants("api", `"poll":"-1s"`), "poll", 400},
			{"POST /v1/wait", wants("api", `"flow":"a"`, `"share":"a"`), "share", 400},
			{"POST /v1/wait", wants("api", `"flow":"`+strings.Repeat("x", 300)+`"`), "limits", 400},
			{"POST /v1/wait", wants("api", `"id":"`+strings.Repeat("x", 201)+`"`), "id", 400},
			{"POST /v1/leave", wants("api"), "id", 400},
			{"POST /v1/leave", wants("none", `"id":"a"`), "limits[0].name", 404},
			{"POST /v1/allow", wants("slots"), "limits", 400},
			{"POST /v1/allow", wants("none"), "limits[0].name", 404},
			{"POST /v1/allow", wants("api", `"ahead":0`), "ahead", 400},
			{"POST /v1/allow", wants("slots", `"ahead":2`), "ahead", 400},
			{"POST /v1/settle", `{"turn":"","used":[1]}`, "turn", 400},
			{"POST /v1/settle", `{"turn":"x"}`, "used", 400},
			{"POST /v1/release", `{}`, "turn", 400},
			{"POST /v1/renew", `{}`, "turn", 400},
			{"POST /v1/pause", wants("api"), "for", 400},
			{"POST /v1/pause", wants("api", `"for":"1s"`, `"until":"2000-01-02T00:00:00Z"`), "for", 400},
			{"POST /v1/pause", wants("api", `"until":"tomorrow"`), "body", 400},
			{"POST /v1/pause", wants("api", `"for":"1s"`, `"reason":"`+strings.Repeat("x", 300)+`"`), "reason", 400},
			{"POST /v1/pause", wants("none", `"for":"1s"`), "limits[0].name", 404},
			{"POST /v1/resume", wants("none"), "limits[0].name", 404},
			{"POST /v1/resume", `{}`, "limits", 400},
			{"PUT /v1/limits/none", `{"limit":"5/s"}`, "name", 404},
			{"PUT /v1/limits/api", `{"limit":"fast"}`, "limit", 400},
			{"PUT /v1/limits/api", `{"limit":"2 at once"}`, "limit", 400},
			{"PUT /v1/limits/api", `{"limit":"5/s","for":"x"}`, "for", 400},
			{"GET /v1/limits/none", "", "name", 404},
			{"GET /v1/limits/hosts", "", "key", 400},
			{"GET /v1/limits/api?key=x", "", "key", 400},
			{"DELETE /v1/limits/none", "", "name", 404},
			{"DELETE /v1/limits/hosts", "", "key", 400},
		} {
			method, path, _ := strings.Cut(c.operation, " ")
			w := do(t, s, request(t, method, path, c.body))
			require.Equal(t, c.status, w.Code, "%s %.200s: %s", c.operation, c.body, w.Body)
			require.Equal(t, c.field, body(t, w).Field, "%s %.200s: %s", c.operation, c.body, w.Body)
		}
		w := do(t, s, request(t, http.MethodPost, "/v1/wait", limits(`{"name":"api","cost":1.5}`)))
		require.Contains(t, w.Body.String(), "must be a whole number, got 1.5")
		w = do(t, s, request(t, http.MethodPost, "/v1/wait", limits(`{"name":"api"},{"name":"api","cost":"x"}`)))
		require.Equal(t, "limits[1].cost", body(t, w).Field)
		w = do(t, s, request(t, http.MethodPost, "/v1/wait", limits(`{"name":"api","cost":1.0}`)))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		time.Sleep(time.Second)
		began := time.Now()
		r := request(t, http.MethodPost, "/v1/wait", wants("api"))
		r.Header.Set("Content-Type", "application/json; charset=UTF-8")
		require.Equal(t, http.StatusOK, do(t, s, r).Code)
		require.Less(t, time.Since(began), 10*time.Millisecond)
	})
}

// Bodies that are too large or of another type, and tokens that are wrong.
func TestWrongRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{Token: "secret"})
		for operation, content := range bodies {
			method, path, _ := strings.Cut(operation, " ")
			for _, header := range []string{"", "Bearer", "Bearer wrong", "Basic secret", "Bearer secret2"} {
				r := request(t, method, path, content)
				r.Header.Set("Authorization", header)
				require.Equal(t, http.StatusUnauthorized, do(t, s, r).Code, operation)
			}
			if content == "" {
				continue
			}
			r := request(t, method, path, content)
			r.Header.Set("Authorization", "bearer secret")
			r.Header.Set("Content-Type", "text/plain")
			require.Equal(t, http.StatusUnsupportedMediaType, do(t, s, r).Code, operation)
			r.Header.Set("Content-Type", "application/json; charset=utf-16")
			require.Equal(t, http.StatusUnsupportedMediaType, do(t, s, r).Code, operation)
			r = request(t, method, path, `{"limits":[{"name":"`+strings.Repeat("x", 1<<20)+`"}]}`)
			r.Header.Set("Authorization", "Bearer secret")
			require.Equal(t, http.StatusRequestEntityTooLarge, do(t, s, r).Code, operation)
		}
		require.Equal(t, http.StatusOK, do(t, s, request(t, http.MethodGet, "/healthz", "")).Code)
	})
}

// Where Redis is away, the limit's policy decides; what needs Redis says so.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		down := errors.New("down")
		s := newSite(t, b, server.Config{Ready: func(context.Context) error { return down }})
		turn := body(t, post(t, s, "/v1/wait", wants("tokens"))).Turn
		b.Redis.SetError("LOADING Redis is loading the dataset in memory")
		for operation, content := range map[string]string{
			"POST /v1/wait": wants("strict"), "POST /v1/allow": wants("strict"), "POST /v1/leave": wants("strict", `"id":"a"`),
			"POST /v1/pause": wants("strict", `"for":"1s"`), "POST /v1/resume": wants("strict"), "POST /v1/settle": `{"turn":"` + turn + `","used":[0]}`,
			"PUT /v1/limits/strict": `{"limit":"5/s"}`, "DELETE /v1/limits/strict": "", "GET /v1/limits/strict": "",
		} {
			method, path, _ := strings.Cut(operation, " ")
			w := do(t, s, request(t, method, path, content))
			require.Equal(t, http.StatusServiceUnavailable, w.Code, "%s: %s", operation, w.Body)
			require.Equal(t, "1", w.Header().Get("Retry-After"), operation)
		}
		require.Equal(t, http.StatusServiceUnavailable, do(t, s, request(t, http.MethodGet, "/readyz", "")).Code)
		b.Redis.SetError("")
	})
}

// No more requests wait than are let.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{MaxWaiting: 1})
		post(t, s, "/v1/wait", wants("api"))
		go func() { post(t, s, "/v1/wait", wants("api")) }()
		time.Sleep(time.Millisecond)
		require.Equal(t, http.StatusServiceUnavailable, post(t, s, "/v1/wait", wants("api")).Code)
		time.Sleep(time.Second)
	})
}

// Settings that are wrong are named.
func TestWrongConfig(t *testing.T) {
	_, err := server.New(nil, server.Config{})
	require.ErrorIs(t, err, server.ErrInvalid)
	synctest.Test(t, func(t *testing.T) {
		set := newSite(t, bubble.New(t), server.Config{}).set
		for field, config := range map[string]server.Config{
			"Config.Poll": {Poll: time.Hour}, "Config.Lease": {Lease: time.Millisecond}, "Config.MaxWaiting": {MaxWaiting: -1},
		} {
			_, err := server.New(set, config)
			require.ErrorIs(t, err, server.ErrInvalid)
			require.ErrorContains(t, err, field)
		}
	})
}

// Whatever a body is, the answer is documented, and the server goes on.
func FuzzWait(f *testing.F) {
	for _, content := range bodies {
		f.Add(content)
	}
	f.Add(wants("api", `"max_wait":"1s"`, `"id":"a"`, `"flow":"b"`, `"weight":2`, `"urgent":true`, `"poll":"0s"`))
	f.Fuzz(func(t *testing.T, content string) {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, bubble.New(t), server.Config{})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/wait", strings.NewReader(content))
			r.Header.Set("Content-Type", "application/json")
			do(t, s, r)
			require.Equal(t, http.StatusOK, post(t, s, "/v1/allow", wants("day")).Code)
		})
	})
}
