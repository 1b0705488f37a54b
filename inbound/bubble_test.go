package inbound_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/inbound"
	inbubble "github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
)

// bubble is a Redis in simulated time, and the servers that share it.
type bubble struct{ *inbubble.Bubble }

func newBubble(t testing.TB) *bubble { return &bubble{inbubble.New(t)} }

// limiter is what one process of the fleet has.
func (b *bubble) limiter(limit reserve.Limit, outage reserve.Outage) *reserve.Limiter {
	return b.Limiter(b.Client(), reserve.Config{Limit: limit, Outage: outage})
}

// site is one process that serves: a limited handler, and how many requests reached it.
type site struct {
	http.Handler
	served atomic.Int64
}

func newSite(t testing.TB, turns reserve.Turns, config inbound.Config) *site {
	limited, err := inbound.Middleware(turns, config)
	require.NoError(t, err)
	s := new(site)
	s.Handler = limited(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.served.Add(1) }))
	return s
}

// site is a process of its own, with a limit and no more.
func (b *bubble) site(limit reserve.Limit, config inbound.Config) *site {
	return newSite(b, b.limiter(limit, reserve.Outage{}), config)
}

// get asks once. The tenant, if any, is a header.
func (s *site) get(ctx context.Context, tenant string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if tenant != "" {
		r.Header.Set("Tenant", tenant)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func retryAfter(t testing.TB, w *httptest.ResponseRecorder) int {
	seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
	assert.NoError(t, err)
	assert.GreaterOrEqual(t, seconds, 1)
	return seconds
}
