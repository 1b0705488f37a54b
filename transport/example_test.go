package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/reservetest/emulator"
	"github.com/fleetpace/fleetpace/transport"
	"github.com/fleetpace/fleetpace/transport/bodies"
)

// t is the *testing.T of your test.
var t = new(testing.T)

// startRedis stands for your own Redis.
func startRedis() (*redis.Client, func()) {
	server, err := embedded.Start("")
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() { _ = client.Close(); server.Close() }
}

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
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "api", Limit: reserve.PerSecond(50)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	paced, err := transport.New(transport.Config{
		Limiter: limiter,
		Retry:   transport.Retry{Max: 3},
		Learn:   true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	begun := time.Now()
	response, err := (&http.Client{Transport: paced}).Get(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = response.Body.Close()
	fmt.Println(response.Status, "after 200 ms:", time.Since(begun) >= 200*time.Millisecond)
	state, err := limiter.State(context.Background())
	fmt.Printf("the limit is %.0f/s %v\n", state.Rate, err)
	// Output:
	// 200 OK after 200 ms: true
	// the limit is 10/s <nil>
}

// Requests of one client may need turns at different limits, or none.
func ExampleConfig_choose() {
	redis, stop := startRedis()
	defer stop()
	core, _ := reserve.New(redis, reserve.Config{Name: "core", Limit: reserve.Rolling(5000, time.Hour)})
	search, _ := reserve.New(redis, reserve.Config{Name: "search", Limit: reserve.Rolling(30, time.Minute)})
	defer func() { _, _ = core.Close(), search.Close() }()

	choose := func(r *http.Request) (transport.Need, error) {
		switch {
		case r.URL.Path == "/rate_limit": // costs nothing
			return transport.Need{}, nil
		case len(r.URL.Path) > 8 && r.URL.Path[:8] == "/search/":
			return transport.Need{Limiter: search, Window: "search"}, nil
		}
		return transport.Need{Limiter: core, Window: "core"}, nil
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
	state, _ := core.State(context.Background())
	fmt.Println("core:", state.Stored, "left")
	state, _ = search.State(context.Background())
	fmt.Println("search:", state.Stored, "left")
	// Output:
	// core: 4998 left
	// search: 29 left
}

// A call needs a request and some tokens at once. What it has used is in its answer.
func ExampleConfig_used() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"usage": {"total_tokens": 200}}`))
	}))
	defer api.Close()
	redis, stop := startRedis()
	defer stop()
	requests, _ := reserve.New(redis, reserve.Config{Name: "requests", Group: "llm", Limit: reserve.PerMinute(57).Burst(10)})
	tokens, _ := reserve.New(redis, reserve.Config{Name: "tokens", Group: "llm", Settles: true, Limit: reserve.PerHour(60).Burst(2500)})
	defer func() { _, _ = requests.Close(), tokens.Close() }()
	both, _ := reserve.All(requests, tokens)

	paced, err := transport.New(transport.Config{
		Choose: func(r *http.Request) (transport.Need, error) {
			estimate := int(r.ContentLength)/4 + 600 // about four bytes per token, plus the longest response
			return transport.Need{Limiter: both, Costs: []int{1, estimate}, Windows: []string{"requests", "tokens"}}, nil
		},
		Used: func(answer *http.Response) []int {
			if answer.StatusCode != http.StatusOK {
				return nil // the estimate stays
			}
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			answer.Body = io.NopCloser(bytes.NewReader(body)) // for the client
			var said struct {
				Usage struct {
					Total int `json:"total_tokens"`
				}
			}
			if err != nil || json.Unmarshal(body, &said) != nil {
				return nil // unknown: the estimate stays
			}
			return []int{1, said.Usage.Total}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := (&http.Client{Transport: paced}).Get(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	state, _ := tokens.State(context.Background())
	fmt.Println(string(body), state.Stored, "tokens left")
	// Output: {"usage": {"total_tokens": 200}} 2300 tokens left
}

// A call needs a request, and tokens of input and of output. Its streams say what it has used.
func ExampleConfig_tokens() {
	synctest.Test(t, func(t *testing.T) {
		api, err := emulator.NewAnthropic(emulator.AnthropicConfig{
			Requests: 50, Input: 30_000, Output: 8_000,
			Wire: emulator.Wire{Answer: func(emulator.Call) emulator.Answer {
				return emulator.Answer{Input: 2_000, CacheRead: 60_000, Output: 300, PerSecond: 100}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		limits := reservetest.New(t).Joint(
			reserve.Config{Name: "requests", Group: "claude", Limit: reserve.PerMinute(50)},
			reserve.Config{Name: "input", Group: "claude", Settles: true, Limit: reserve.PerMinute(30_000).Burst(10_000)},
			reserve.Config{Name: "output", Group: "claude", Settles: true, Limit: reserve.PerMinute(8_000).Burst(2_000)},
		)

		config := transport.Config{
			API: bodies.Anthropic,
			Choose: func(r *http.Request) (transport.Need, error) {
				input := max(1, int(r.ContentLength)/4) // about four bytes per token
				return transport.Need{
					Limiter: limits,
					Costs:   []int{1, input, 800}, // 800: what a response has on average
					Windows: []string{"requests", "input-tokens", "output-tokens"},
				}, nil
			},
			Tokens: func(_ *http.Response, u bodies.Usage) []int {
				return []int{1, u.Input + u.CacheWrite, u.Output} // what a cache held does not count
			},
		}
		config.Base = emulator.RoundTripper(api)
		paced, err := transport.New(config)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: paced}
		response, err := client.Post("https://api.anthropic.com/v1/messages", "application/json", strings.NewReader(`{"model":"claude-fable-5","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body) // three seconds
		_ = response.Body.Close()
		synctest.Wait()
		for _, limit := range limits.Limits()[1:] {
			state, err := limit.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(limit, state.Stored, "tokens left")
		}
	})
	// Output:
	// input 9500 tokens left
	// output 2000 tokens left
}

// A client whose requests take turns, in simulated time.
func ExampleNew() {
	synctest.Test(t, func(t *testing.T) {
		limiter := reservetest.New(t).Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(6)})
		api := reservetest.NewAPI(t, reserve.PerMinute(6))

		paced, err := transport.New(transport.Config{Limiter: limiter, Base: api.RoundTripper()})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: paced}
		began := time.Now()
		for range 3 {
			response, err := client.Get("https://api.example/items")
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			fmt.Println(response.Status, "after", time.Since(began).Round(time.Second))
		}
	})
	// Output:
	// 200 OK after 0s
	// 200 OK after 10s
	// 200 OK after 20s
}

// The API allows less than the limiter. What it refuses is sent again when it says.
func ExampleRetry() {
	synctest.Test(t, func(t *testing.T) {
		limiter := reservetest.New(t).Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(60)})
		api := reservetest.NewAPI(t, reserve.PerMinute(2))

		paced, err := transport.New(transport.Config{
			Limiter: limiter,
			Base:    api.RoundTripper(),
			Retry:   transport.Retry{Max: 1, MaxWait: time.Minute},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: paced}
		for range 2 {
			response, err := client.Get("https://api.example/items")
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			fmt.Println(response.Status)
		}
		for _, r := range api.Requests() {
			fmt.Println(r.At.Format(time.TimeOnly), "refused:", r.Refused)
		}
	})
	// Output:
	// 200 OK
	// 200 OK
	// 00:00:00 refused: false
	// 00:00:01 refused: true
	// 00:00:30 refused: false
}

// signed is a transport of yours, on top of the one that takes turns.
type signed struct{ next http.RoundTripper }

func (s signed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer secret")
	return s.next.RoundTrip(request)
}

// Transports stand on top of each other: one signs, one takes turns, one sends.
func ExampleTransport_RoundTrip() {
	synctest.Test(t, func(t *testing.T) {
		limiter := reservetest.New(t).Limiter(reserve.Config{Name: "api", Limit: reserve.PerMinute(6)})
		api := reservetest.NewAPIHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s at %s", r.Header.Get("Authorization"), time.Now().Format(time.TimeOnly))
		}), reserve.PerMinute(6))

		paced, err := transport.New(transport.Config{Limiter: limiter, Base: api.RoundTripper()})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: signed{paced}}
		for range 2 {
			response, err := client.Get("https://api.example/items")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			fmt.Println(string(body), err)
		}
	})
	// Output:
	// Bearer secret at 00:00:00 <nil>
	// Bearer secret at 00:00:10 <nil>
}

// A client that is not needed any more closes its connections through the transport.
func ExampleTransport_CloseIdleConnections() {
	closed := make(chan bool, 1)
	api := httptest.NewUnstartedServer(http.NotFoundHandler())
	api.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- true
		}
	}
	api.Start()
	defer api.Close()
	redis, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(redis, reserve.Config{Name: "api", Limit: reserve.PerSecond(50)})
	defer func() { _ = limiter.Close() }()

	paced, err := transport.New(transport.Config{Limiter: limiter, Base: &http.Transport{}})
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
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	client.CloseIdleConnections() // calls that of the transport
	fmt.Println("closed:", <-closed)
	// Output: closed: true
}

// A crawler has a limit for each site, and one for all. A site that wants a rest is left alone,
// and the others go on.
func ExampleTurn_pauses() {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer site.Close()
	redis, stop := startRedis()
	defer stop()
	sites, _ := reserve.New(redis, reserve.Config{Name: "sites", Group: "crawl", Limit: reserve.PerSecond(2)})
	crawl, _ := reserve.New(redis, reserve.Config{Name: "crawl", Group: "crawl", Limit: reserve.PerSecond(6)})
	defer func() { _, _ = sites.Close(), crawl.Close() }()

	paced, err := transport.New(transport.Config{
		Choose: func(r *http.Request) (transport.Need, error) {
			site := sites.For(r.URL.Host)
			both, err := reserve.All(site, crawl) // of one Config.Group
			return transport.Need{Limiter: both, Pauses: site}, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := (&http.Client{Transport: paced}).Get(site.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = response.Body.Close()
	ofSite, _ := sites.For(response.Request.URL.Host).State(context.Background())
	ofCrawl, _ := crawl.State(context.Background())
	fmt.Println(response.Status, ofSite.Paused > 0, ofCrawl.Paused > 0)
	// Output: 503 Service Unavailable true false
}
