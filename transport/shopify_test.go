package transport_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
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
