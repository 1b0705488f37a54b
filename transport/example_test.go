package transport_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/internal/inprocess"
)

// newLimiter stands for your own reserve.Limiter.
func newLimiter(limit reserve.Limit) *inprocess.Limiter { return inprocess.New(limit) }

// startAPI stands for the provider: it refuses the first call.
func startAPI() *httptest.Server {
	refused := false
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Policy", `"default";q=600;w=60`)
		if !refused {
			refused = true
			w.Header().Set("Retry-After", "0.2")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
}

// Every request of the client takes its turn. What the provider refuses is sent
// again when it says, and the limit follows what it tells.
func Example() {
	api := startAPI()
	defer api.Close()
	limiter := newLimiter(reserve.PerSecond(50))

	paced, err := transport.New(transport.Config{
		Limiter: limiter,
		Retry:   transport.Retry{Max: 3},
		Learn:   true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: paced}

	response, err := client.Get(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = response.Body.Close()
	fmt.Println(response.Status, "after", limiter.Turns(), "turns")
	fmt.Println("paused for", limiter.Pauses()[0].For)
	fmt.Println("the limit is", limiter.Now())
	// Output:
	// 200 OK after 2 turns
	// paused for 200ms
	// the limit is 10/s
}

// Requests of one client may need turns at different limits, or none.
func ExampleConfig_choose() {
	core := newLimiter(reserve.PerHour(5000).Burst(100))
	search := newLimiter(reserve.PerMinute(30))

	choose := func(r *http.Request) (transport.Turn, error) {
		switch {
		case r.URL.Path == "/rate_limit": // costs nothing
			return transport.Turn{}, nil
		case len(r.URL.Path) > 8 && r.URL.Path[:8] == "/search/":
			return transport.Turn{Limiter: search, Window: "search"}, nil
		}
		return transport.Turn{Limiter: core, Window: "core"}, nil
	}
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	paced, err := transport.New(transport.Config{Choose: choose, MaxPause: 10 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: paced}
	for _, path := range []string{"/rate_limit", "/search/code", "/user", "/repos"} {
		response, err := client.Get(api.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = response.Body.Close()
	}
	fmt.Println("core:", core.Turns(), "search:", search.Turns())
	// Output: core: 2 search: 1
}
