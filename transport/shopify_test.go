package transport_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/bubble"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// Two processes query three shops, or twenty with FLEETPACE_LONG, with eight workers for each. A query requests 101 points and costs 46, so each shop bears
// 1.09 queries a second. A query that is too dear is not repeated, and holds up no other one.
func TestShops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, requested, actual, from, until = 8, 101, 46, 10 * time.Second, time.Minute
		shops := 3
		if os.Getenv("FLEETPACE_LONG") != "" {
			shops = 20
		}
		api, err := emulator.NewShopify(emulator.ShopifyConfig{Query: func(r *http.Request) (float64, float64, time.Duration) {
			if r.URL.Path == "/dear" {
				return 2000, 2000, 0
			}
			return requested, actual, 500 * time.Millisecond
		}})
		require.NoError(t, err)
		b := bubble.New(t)
		var fleet []*transport.Transport
		for range 2 {
			points := b.Limiter(b.Client(), reserve.Config{Name: "shopify", Limit: reserve.PerSecond(50).Burst(900), Settles: true})
			fleet = append(fleet, newTransport(t, transport.Config{
				API: bodies.Shopify, Base: emulator.RoundTripper(api), Retry: transport.Retry{Max: 3}, Logger: slog.New(slog.DiscardHandler),
				Choose: func(r *http.Request) (transport.Turn, error) {
					return transport.Turn{Limiter: points.For(r.URL.Host), Costs: []int{requested}}, nil
				},
				Tokens: func(_ *http.Response, u bodies.Usage) []int { return []int{u.Cost} },
			}))
		}
		host := func(i int) string { return "shop-" + strconv.Itoa(i%shops) }
		query := func(i int, path string) {
			response, err := fleet[i/shops%2].RoundTrip(newRequest(t, http.MethodGet, "https://"+host(i)+path, nil))
			if assert.NoError(t, err) {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range shops * workers {
			all.Go(func() {
				if i < shops {
					query(i, "/dear")
				}
				for time.Since(start) < until {
					query(i, "/")
				}
			})
		}
		used := func() (points float64) {
			for i := range shops {
				points += api.Shop(host(i)).Report().Used
			}
			return points
		}
		time.Sleep(from)
		before := used()
		time.Sleep(until - from)
		part := (used() - before) / (float64(shops) * 50 * (until - from).Seconds())
		all.Wait()
		for i := range shops {
			r := api.Shop(host(i)).Report()
			assert.Zero(t, r.Throttled)
			assert.LessOrEqual(t, r.MostOpen, 9)
		}
		t.Logf("%.3f of the points used: %.2f queries a second and shop", part, part*50/actual)
		assert.GreaterOrEqual(t, part, 0.97)
	})
}

// Each response of a shop counts once, though its header and its body are heard: of 20, three of an overloaded shop are
// more than a tenth, and halve the rate.
func TestShopIsOverloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, i := newLimiter(t, reserve.PerSecond(50).Burst(900)), 0
		paced := newTransport(t, transport.Config{API: bodies.Shopify, Limiter: l, Learn: true, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
			response := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: io.NopCloser(strings.NewReader(`{"data":{},"extensions":{"cost":{"requestedQueryCost":1,"actualQueryCost":1,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":900,"restoreRate":50}}}}`))}
			if i%6 == 5 {
				response.StatusCode, response.Body = 503, http.NoBody
			}
			return response, nil
		})})
		for ; i < 20; i++ {
			do(t, paced, newRequest(t, "POST", "http://shop/", nil))
			synctest.Wait() // bodies are heard in the background
		}
		assert.InDelta(t, 25, l.inForce(t).Rate, 1e-6)
	})
}

// Half way, the plan of a shop gets twice the points, and later it is as before. Two processes that learn follow it with
// the next answers, up to their Ceiling, and down. No query is throttled.
func TestShopChangesItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = time.Minute
		var used atomic.Int64
		api, err := emulator.NewShopify(emulator.ShopifyConfig{Query: func(*http.Request) (float64, float64, time.Duration) { return 101, 46, 500 * time.Millisecond }})
		require.NoError(t, err)
		b := bubble.New(t)
		start := time.Now()
		var all sync.WaitGroup
		for range 2 {
			paced := newTransport(t, transport.Config{
				API: bodies.Shopify, Base: emulator.RoundTripper(api), Logger: slog.New(slog.DiscardHandler), Learn: true, Ceiling: reserve.PerSecond(1000),
				Limiter: b.Limiter(b.Client(), reserve.Config{Name: "shop", Limit: reserve.PerSecond(50).Burst(900), Settles: true}),
				Tokens:  func(_ *http.Response, u bodies.Usage) []int { return []int{u.Cost} },
			})
			for range 8 {
				all.Go(func() {
					for time.Since(start) < 3*lasts {
						response, err := paced.RoundTrip(newRequest(t, http.MethodGet, "https://shop/", nil).WithContext(transport.WithCost(t.Context(), 101)))
						if assert.NoError(t, err) {
							_, _ = io.Copy(io.Discard, response.Body)
							_ = response.Body.Close()
							used.Add(46)
						}
					}
				})
			}
		}
		for _, rate := range []float64{50, 100, 50} {
			api.Shop("shop").SetRate(time.Now(), rate)
			time.Sleep(lasts / 3)
			before := used.Load()
			time.Sleep(lasts * 2 / 3)
			part := float64(used.Load()-before) / (rate * (lasts * 2 / 3).Seconds())
			t.Logf("%.3f of %v points a second used", part, rate)
			assert.InDelta(t, 1, part, 0.03)
		}
		all.Wait()
		assert.Zero(t, api.Shop("shop").Report().Throttled)
	})
}
