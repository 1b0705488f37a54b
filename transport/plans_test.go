package transport_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

// answers is an API that answers every request at once.
type answers struct{}

func (answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

// Requests have the limit of the plan of their customer, and follow it while they wait.
func TestRequestsFollowPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bubble.New(t)
		var version atomic.Int64
		version.Store(1)
		limiter := b.Limiter(b.Client(), reserve.Config{Name: "plans", Limit: reserve.PerMinute(1), LimitOf: func(key string) (reserve.Limit, int64) {
			switch v := version.Load(); {
			case key != "acme.example":
				return reserve.Limit{}, 0
			case v > 1:
				return reserve.PerSecond(40), v
			}
			return reserve.PerSecond(2), 1
		}})
		paced := newTransport(t, transport.Config{Base: answers{}, Choose: func(r *http.Request) (transport.Need, error) {
			return transport.Need{Limiter: limiter.For(r.URL.Host)}, nil
		}})
		begun := time.Now()
		var requests sync.WaitGroup
		for range 30 {
			requests.Go(func() {
				assert.Equal(t, http.StatusOK, do(t, paced, newRequest(t, "GET", "http://acme.example/", nil)))
			})
		}
		time.Sleep(2 * time.Second)
		version.Store(2)
		requests.Wait()
		require.Less(t, time.Since(begun), 4500*time.Millisecond)
		require.Equal(t, "40/s", limiter.For("acme.example").Limit().String())
	})
}
