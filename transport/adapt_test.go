package transport_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
)

var _ transport.Adapter = (*adaptive.Rate)(nil)

// hears is an Adapter that keeps what it hears.
type hears struct {
	mu  sync.Mutex
	all []string // permits, whether refused, and since when the call was under way
}

func (h *hears) ReportN(sent time.Time, n int, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, fmt.Sprint(n, refused, time.Since(sent)))
}

// slow is a Base that takes a second to answer.
type slow struct{ http.RoundTripper }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Second)
	return s.RoundTripper.RoundTrip(r)
}

// TestAdapt: each attempt is reported, from the moment of its turn on.
func TestAdapt(t *testing.T) {
	for _, c := range []struct {
		name string
		what reply
		want []string
	}{
		{"all is well", reply{200, ""}, []string{"3 false 1s"}},
		{"refused", reply{429, ""}, []string{"3 true 1s"}},
		{"refused for good", reply{429, "X-Should-Retry: false"}, nil},
		{"overloaded", reply{529, ""}, []string{"3 true 1s"}},
		{"unavailable", reply{503, ""}, []string{"3 true 1s"}},
		{"refused as GitHub has it", reply{403, "Retry-After: 1"}, []string{"3 true 1s"}},
		{"forbidden", reply{403, ""}, []string{"3 false 1s"}},
		{"broken", reply{500, ""}, []string{"3 false 1s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, rate := newLimiter(t, reserve.PerMinute(30).Burst(3)), &hears{}
				paced := newTransport(t, transport.Config{
					Base: slow{&script{answers: []reply{c.what}}},
					Choose: func(*http.Request) (transport.Need, error) {
						return transport.Need{Limiter: limiter, Cost: 3, Adapt: rate}, nil
					},
				})
				assert.NoError(t, limiter.WaitN(t.Context(), 3)) // so that the request waits
				do(t, paced, newRequest(t, "GET", "http://api.test", nil))
				assert.Equal(t, c.want, rate.all)
			})
		})
	}
}

// TestAdaptRetries: an attempt that is sent again is another call.
func TestAdaptRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := &hears{}
		paced := newTransport(t, transport.Config{
			Limiter: fast(t), Adapt: rate, Retry: transport.Retry{Max: 1},
			Base: slow{&script{answers: []reply{{429, "Retry-After: 5"}, {200, ""}}}},
		})
		do(t, paced, newRequest(t, "GET", "http://api.test", nil))
		assert.Equal(t, []string{"1 true 1s", "1 false 1s"}, rate.all)
	})
}
