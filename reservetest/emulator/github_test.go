package emulator_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reservetest/emulator"
)

func newGitHub(t *testing.T, config emulator.GitHubConfig) *emulator.GitHub {
	t.Helper()
	api, err := emulator.NewGitHub(config)
	require.NoError(t, err)
	return api
}

func get(t *testing.T, api http.Handler, method string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://api.example/user", nil)
	require.NoError(t, err)
	response, err := emulator.RoundTripper(api).RoundTrip(r)
	require.NoError(t, err)
	_ = response.Body.Close()
	return response.StatusCode, response.Header
}

// Each rule of a user, with requests that keep it and requests that do not.
func TestGitHubRules(t *testing.T) {
	t.Run("the hour", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := newGitHub(t, emulator.GitHubConfig{Hourly: 2})
			for _, want := range []int{200, 200, 403, 403} {
				status, h := get(t, api, http.MethodGet)
				assert.Equal(t, want, status)
				assert.NotEmpty(t, h.Get("X-RateLimit-Reset"))
			}
			time.Sleep(time.Hour)
			status, h := get(t, api, http.MethodGet)
			assert.Equal(t, 200, status)
			assert.Equal(t, "1", h.Get("X-RateLimit-Remaining"))
			assert.Equal(t, 2, api.Report().Primary)
		})
	})
	t.Run("the points of a minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := newGitHub(t, emulator.GitHubConfig{Points: 11})
			for _, c := range []struct {
				method string
				want   int
			}{{"POST", 200}, {"GET", 200}, {"POST", 200}, {"GET", 403}} {
				status, h := get(t, api, c.method)
				assert.Equal(t, c.want, status)
				assert.Empty(t, h.Get("Retry-After"))
			}
			time.Sleep(time.Minute)
			status, _ := get(t, api, "GET")
			assert.Equal(t, 200, status)
		})
	})
	t.Run("requests at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			api := newGitHub(t, emulator.GitHubConfig{AtOnce: 3, Takes: time.Second})
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { get(t, api, "GET") })
			}
			time.Sleep(time.Millisecond)
			status, _ := get(t, api, "GET")
			assert.Equal(t, 403, status)
			all.Wait()
			assert.Equal(t, emulator.GitHubReport{Admitted: 3, Secondary: 1, MostOpen: 3}, api.Report())
		})
	})
}

// A client that tries again at once is banned. One that waits a minute is not.
func TestGitHubFindsWrongClients(t *testing.T) {
	for wait, banned := range map[time.Duration]bool{10 * time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			api := newGitHub(t, emulator.GitHubConfig{Points: 5})
			for range 30 {
				if status, _ := get(t, api, "GET"); status != 200 {
					time.Sleep(wait)
				}
			}
			assert.Equal(t, banned, api.Report().Banned, "%v: %+v", wait, api.Report())
		})
	}
}
