package transport_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
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
		var refused string      // the caller whose call was refused
		var over atomic.Bool    // its call has come again, so the pause has been told, and is over
		var served atomic.Int64 // responses
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			switch {
			case calls == 20:
				until, refused = time.Now().Add(pause), r.URL.Path
				w.Header().Set("Retry-After", "2")
				w.WriteHeader(http.StatusTooManyRequests)
			case r.URL.Path == refused:
				over.Store(true)
			case time.Now().Before(until):
				early++
			}
		}))
		defer api.Close()
		prefix := redistest.Prefix(t)
		var requests sync.WaitGroup
		for process := range 2 {
			limiter, err := reserve.New(redis.Client(t), reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(50)})
			require.NoError(t, err)
			defer func() { _ = limiter.Close() }()
			paced, err := transport.New(transport.Config{Limiter: limiter, Retry: transport.Retry{Max: 1}})
			require.NoError(t, err)
			client := &http.Client{Transport: paced}
			for caller := range 20 {
				requests.Go(func() {
					for !over.Load() {
						response, err := client.Get(fmt.Sprintf("%s/%d/%d", api.URL, process, caller))
						if !assert.NoError(t, err) {
							return
						}
						assert.Equal(t, http.StatusOK, response.StatusCode)
						_ = response.Body.Close()
						served.Add(1)
					}
				})
			}
		}
		requests.Wait()
		t.Logf("MEASURE %d calls, %d of them in the pause", calls, early)
		assert.EqualValues(t, served.Load()+1, calls, "one came twice")
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
