package transport_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// One answer with Retry-After holds up both processes that share the limit.
func TestOneAnswerPausesTheFleet(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, redis *redistest.Server) {
		const pause = 2 * time.Second
		var mu sync.Mutex
		var calls, early int
		var until time.Time
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			switch {
			case calls == 20:
				until = time.Now().Add(pause)
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusTooManyRequests)
			case time.Now().Before(until):
				early++
			}
		}))
		defer api.Close()
		prefix := redistest.Prefix(t)
		var requests sync.WaitGroup
		for range 2 {
			limiter, err := reserve.New(redis.Client(t), reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(50)})
			require.NoError(t, err)
			defer func() { _ = limiter.Close() }()
			paced, err := transport.New(transport.Config{Limiter: limiter, Retry: transport.Retry{Max: 1}})
			require.NoError(t, err)
			client := &http.Client{Transport: paced}
			for range 40 {
				requests.Go(func() {
					response, err := client.Get(api.URL)
					if assert.NoError(t, err) {
						assert.Equal(t, http.StatusOK, response.StatusCode)
						_ = response.Body.Close()
					}
				})
			}
		}
		requests.Wait()
		t.Logf("MEASURE %d calls, %d of them in the pause", calls, early)
		assert.Equal(t, 81, calls, "one came twice")
		turns.Lock()
		due := slices.SortedFunc(slices.Values(turns.moments[prefix]), time.Time.Compare)
		turns.Unlock()
		require.Len(t, due, calls)
		require.False(t, due[0].IsZero(), "Redis knows of all")
		var gap time.Duration
		for i := range due[1:] {
			gap = max(gap, due[i+1].Sub(due[i]))
		}
		// What was due before a process heard of the pause is sent.
		assert.Greater(t, gap, pause-reserve.Lead, "nobody has a turn in the pause")
	})
}
