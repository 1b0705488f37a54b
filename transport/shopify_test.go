package transport_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
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
				Choose: func(r *http.Request) (transport.Need, error) {
					return transport.Need{Limiter: points.For(r.URL.Host), Costs: []int{requested}}, nil
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

// A limit stores the part of a shop's bucket that the own burst is of the own bucket, at once and for as long as the shop
// states it. A response that states no limit keeps that burst.
func TestBurstOfAShop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			burst, of1000, of600 int
		}{{1900, 950, 570}, {2000, 1000, 600}, {500, 500, 500}, {1500, 900, 540}} {
			var status, holds, perSecond int
			l := newLimiter(t, reserve.PerSecond(100).Burst(c.burst))
			paced := newTransport(t, transport.Config{API: bodies.Shopify, Limiter: l, Learn: true, Base: baseFunc(func(r *http.Request) (*http.Response, error) {
				body := fmt.Sprintf(`{"data":{},"extensions":{"cost":{"requestedQueryCost":1,"actualQueryCost":1,"throttleStatus":{"maximumAvailable":%d,"currentlyAvailable":%d,"restoreRate":%d}}}}`, holds, holds, perSecond)
				if status != 200 {
					body = "{}"
				}
				return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(body))}, nil
			})})
			answers := func(code, size, rate int) string {
				status, holds, perSecond = code, size, rate
				do(t, paced, newRequest(t, "POST", "http://shop/", nil))
				synctest.Wait() // bodies are heard in the background
				state := l.inForce(t)
				return fmt.Sprintf("%.4g of %d", state.Rate, state.Burst)
			}
			assert.Equal(t, fmt.Sprint("100 of ", c.burst), answers(200, 2000, 100), "the configured plan")
			assert.Equal(t, fmt.Sprint("50 of ", c.of1000), answers(200, 1000, 50), "a smaller plan")
			assert.Equal(t, fmt.Sprint("50 of ", c.of600), answers(200, 600, 50), "only the bucket is smaller")
			time.Sleep(5 * time.Second)
			answers(503, 0, 0)
			answers(503, 0, 0)
			assert.Equal(t, fmt.Sprint("25 of ", c.of600), answers(503, 0, 0), "the shop is overloaded")
			time.Sleep(time.Minute)
			for range 10 {
				answers(200, 600, 50)
				time.Sleep(10 * time.Second)
			}
			assert.Equal(t, fmt.Sprint("50 of ", c.of600), answers(200, 600, 50), "after the overload")
			time.Sleep(time.Minute)
			assert.Equal(t, fmt.Sprint("50 of ", c.of1000), answers(200, 1000, 50), "only the bucket is larger, after a minute")
			for range 12 { // longer than what is stated counts
				assert.Equal(t, fmt.Sprint("100 of ", c.of1000), answers(200, 1000, 100), "the bucket is smaller than that of the plan")
				time.Sleep(10 * time.Minute)
				assert.Equal(t, c.of1000, l.inForce(t).Burst)
			}
			assert.Equal(t, fmt.Sprint("100 of ", c.burst), answers(200, 2000, 100), "the configured plan again")
		}
	})
}

// Two processes meet a shop whose plan is half of the configured one. Requests arrive up to 0.9 s late, so some arrive
// early after others: the rest of the bucket bears that, and no query is throttled.
func TestShopWithASmallerPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewShopify(emulator.ShopifyConfig{Points: 1000, Rate: 50, Query: func(*http.Request) (float64, float64, time.Duration) { return 101, 46, 500 * time.Millisecond }})
		require.NoError(t, err)
		b, random := bubble.New(t), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // histories are repeatable
		late := make([]time.Duration, 64)
		for i := range late {
			late[i] = time.Duration(random.IntN(900)) * time.Millisecond
		}
		var sent atomic.Int64
		start := time.Now()
		var all sync.WaitGroup
		for range 2 {
			paced := newTransport(t, transport.Config{
				API: bodies.Shopify, Logger: slog.New(slog.DiscardHandler), Learn: true,
				Base: baseFunc(func(r *http.Request) (*http.Response, error) {
					time.Sleep(late[sent.Add(1)%64])
					return emulator.RoundTripper(api).RoundTrip(r)
				}),
				Limiter: b.Limiter(b.Client(), reserve.Config{Name: "shop", Limit: reserve.PerSecond(100).Burst(1900), Settles: true}),
				Tokens:  func(_ *http.Response, u bodies.Usage) []int { return []int{u.Cost} },
			})
			query := func() {
				do(t, paced, newRequest(t, http.MethodGet, "https://shop/", nil).WithContext(transport.WithCost(t.Context(), 101)))
			}
			query() // each process learns the plan
			for range 8 {
				all.Go(func() {
					for time.Sleep(30 * time.Second); time.Since(start) < 3*time.Minute; {
						query()
					}
				})
			}
		}
		all.Wait()
		r := api.Shop("shop").Report()
		part := r.Used / (50*(time.Since(start)-30*time.Second).Seconds() + 1000)
		t.Logf("%.3f of the points used, %d queries throttled", part, r.Throttled)
		assert.Zero(t, r.Throttled)
		assert.GreaterOrEqual(t, part, 0.9)
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
