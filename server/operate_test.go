package server_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// A pause counts for all, and ends early where somebody says so.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		began := time.Now()
		until := began.Add(time.Hour).Format(time.RFC3339)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/pause", wants("api", `"until":"`+until+`"`, `"reason":"theirs is down"`)).Code)
		now := body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/api", "")))
		require.InDelta(t, ms(time.Hour), now.Paused, 1000)
		require.Equal(t, "theirs is down", now.Reason)
		time.AfterFunc(2*time.Second, func() {
			require.Equal(t, http.StatusNoContent, post(t, s, "/v1/resume", wants("api")).Code)
		})
		require.Equal(t, http.StatusAccepted, post(t, s, "/v1/wait", wants("api", `"id":"x"`)).Code)
		time.Sleep(2100 * time.Millisecond)
		require.Equal(t, http.StatusOK, post(t, s, "/v1/wait", wants("api", `"id":"x"`)).Code)
		require.Less(t, time.Since(began), 3*time.Second)
	})
}

// A worker reports what the provider says, for at most an hour. An operator pauses for as long as it likes.
func TestLongestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		require.NoError(t, os.WriteFile(path, []byte("turns worker\noperate both\nturns both\n"), 0o600))
		s := newSite(t, bubble.New(t), server.Config{TokenFile: path})
		as := func(token, method, path, content string) *httptest.ResponseRecorder {
			r := request(t, method, path, content)
			r.Header.Set("Authorization", "Bearer "+token)
			return do(t, s, r)
		}
		for token, longest := range map[string]time.Duration{"worker": time.Hour, "both": 3 * time.Hour} {
			for _, pause := range []string{`"for":"3h"`, `"until":"` + time.Now().Add(3*time.Hour).Format(time.RFC3339) + `"`, `"for":"7s"`} {
				require.Equal(t, http.StatusNoContent, as(token, http.MethodPost, "/v1/pause", wants("api", pause)).Code)
				want := longest
				if pause == `"for":"7s"` {
					want = 7 * time.Second
				}
				require.InDelta(t, ms(want), body(t, as(token, http.MethodGet, "/v1/limits/api", "")).Paused, 2000, "%s %s", token, pause)
				require.Equal(t, http.StatusNoContent, as("both", http.MethodPost, "/v1/resume", wants("api")).Code)
			}
		}
	})
}

// After a stop, a client tries again when it ends; where nobody knows the end, when one call of the fleet may probe.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		s := newSite(t, b, server.Config{})
		api := b.Limiter(b.Client(), reserve.Config{Name: "api", Limit: reserve.PerSecond(10)})
		for end, after := range map[time.Duration]string{0: "300", 2 * time.Hour: "7200", 100 * time.Hour: "86400"} {
			until := time.Time{}
			if end > 0 {
				until = time.Now().Add(end)
			}
			require.NoError(t, api.Stop(t.Context(), until, "no credit"))
			for _, path := range []string{"/v1/wait", "/v1/allow"} {
				w := post(t, s, path, wants("api"))
				require.Equal(t, http.StatusTooManyRequests, w.Code)
				require.Equal(t, after, w.Header().Get("Retry-After"), "%s at a stop for %v", path, end)
			}
			require.NoError(t, api.Resume(t.Context()))
			time.Sleep(2 * time.Second)
		}
	})
}

// A limit that is set is in force at once, until it is reset.
func TestSetLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		require.Equal(t, http.StatusNoContent, do(t, s, request(t, http.MethodPut, "/v1/limits/api", `{"limit":"1/s","for":"1h"}`)).Code)
		now := body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/api", "")))
		require.True(t, now.Set)
		require.Equal(t, "1/s", now.Limit)
		post(t, s, "/v1/wait", wants("api"))
		began := time.Now()
		post(t, s, "/v1/wait", wants("api"))
		require.InDelta(t, 1, time.Since(began).Seconds(), 0.05)
		require.Equal(t, http.StatusNoContent, do(t, s, request(t, http.MethodDelete, "/v1/limits/api", "")).Code)
		require.False(t, body(t, do(t, s, request(t, http.MethodGet, "/v1/limits/api", ""))).Set)
		require.Equal(t, http.StatusOK, do(t, s, request(t, http.MethodGet, "/v1/limits/hosts?key=a", "")).Code)
		require.Equal(t, http.StatusOK, do(t, s, request(t, http.MethodGet, "/v1/limits/tenants", "")).Code)
		require.Equal(t, http.StatusOK, do(t, s, request(t, http.MethodGet, "/v1/openapi.yaml", "")).Code)
		all := body(t, do(t, s, request(t, http.MethodGet, "/v1/limits", ""))).Limits
		require.Len(t, all, 19)
		require.Equal(t, listed{"hosts", "1/s", "{host}", "", ""}, all[4])
	})
}

// Whoever leaves is not waited for.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		post(t, s, "/v1/wait", wants("slow"))
		post(t, s, "/v1/wait", wants("slow", `"poll":"1s"`, `"id":"a"`))
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/leave", wants("slow", `"id":"a"`)).Code)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/leave", wants("tenants", `"id":"a"`)).Code)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/leave", wants("slow", `"id":"a"`)).Code)
		require.InDelta(t, ms(time.Minute), body(t, post(t, s, "/v1/wait", wants("slow", `"poll":"1s"`))).Forecast, 100)

		var waits sync.WaitGroup
		post(t, s, "/v1/wait", wants("api"))
		post(t, s, "/v1/pause", wants("api", `"for":"5s"`))
		code := 0
		waits.Go(func() { code = post(t, s, "/v1/wait", wants("api", `"id":"b"`)).Code })
		time.Sleep(time.Second)
		require.Equal(t, http.StatusNoContent, post(t, s, "/v1/leave", wants("api", `"id":"b"`)).Code)
		waits.Wait()
		require.Equal(t, http.StatusConflict, code)
	})
}

// Where calls wait, each share has its part by its weight.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, bubble.New(t), server.Config{})
		var callers sync.WaitGroup
		var mu sync.Mutex
		had := map[string]int{}
		for range 60 {
			for _, share := range []string{"acme", "free"} {
				callers.Go(func() {
					name := map[string]string{"acme": "flow", "free": "share"}[share] // share is the earlier name
					w := post(t, s, "/v1/wait", wants("tenants", `"`+name+`":"`+share+`"`))
					if w.Code == http.StatusOK {
						mu.Lock()
						defer mu.Unlock()
						if had["acme"]+had["free"] < 40 {
							had[share]++
						}
					}
				})
			}
		}
		callers.Wait()
		require.InDelta(t, 30, had["acme"], 3, "%v", had)
	})
}
