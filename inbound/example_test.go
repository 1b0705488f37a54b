package inbound_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/inbound"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
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

// hello stands for your own API.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

// call stands for a client of it.
func call(api http.Handler, account string) *http.Response {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(account, "secret")
	api.ServeHTTP(w, r)
	return w.Result()
}

func ExampleMiddleware() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "our-api", Limit: reserve.PerHour(2).Burst(2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	// Two calls per hour for each account that has logged in.
	limited, err := inbound.Middleware(limiter, inbound.Config{
		MaxWait: 10 * time.Second, // for the turn; Redis may take a second more
		Key: func(r *http.Request) (string, error) {
			account, _, ok := r.BasicAuth()
			if !ok {
				return "", errors.New("not logged in")
			}
			return account, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	api := limited(hello)

	for _, account := range []string{"ann", "ann", "ann", "bob"} {
		answer := call(api, account)
		seconds, _ := strconv.ParseFloat(answer.Header.Get("Retry-After"), 64)
		fmt.Printf("%s %s %.0f min\n", account, answer.Status, seconds/60)
		_ = answer.Body.Close()
	}
	// Output:
	// ann 200 OK 0 min
	// ann 200 OK 0 min
	// ann 429 Too Many Requests 30 min
	// bob 200 OK 0 min
}

// Requests may wait for a moment, and those that pass are told what is left.
func ExampleConfig() {
	client, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(client, reserve.Config{Name: "our-api", Limit: reserve.PerHour(100).Burst(100)})
	defer func() { _ = limiter.Close() }()

	limited, _ := inbound.Middleware(limiter, inbound.Config{
		MaxWait:     2 * time.Second,
		Policies:    []string{"basic"},
		EveryAnswer: true,
	})
	answer := call(limited(hello), "ann")
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	fmt.Println("RateLimit-Policy:", answer.Header.Get("RateLimit-Policy"))
	left, _, _ := strings.Cut(answer.Header.Get("RateLimit"), ";t=")
	fmt.Println("RateLimit:", left)
	// Output:
	// 200 OK
	// RateLimit-Policy: "basic";q=100;w=3600
	// RateLimit: "basic";r=99
}

func ExampleQuota() {
	synctest.Test(t, func(*testing.T) {
		header := make(http.Header)
		quota := inbound.NewQuota("basic", reserve.PerMinute(60).Burst(60), reserve.State{
			Stored:   12.05,
			NextFree: time.Now().Add(-12_050 * time.Millisecond),
		})
		quota.SetHeaders(header, inbound.HeadersIETF)
		fmt.Println(header.Get("RateLimit-Policy"))
		fmt.Println(header.Get("RateLimit"))
	})
	// Output:
	// "basic";q=60;w=60
	// "basic";r=12;t=48
}

// A page of your own tells what an account has left.
func ExampleNewQuota() {
	synctest.Test(t, func(t *testing.T) {
		limiter := reservetest.New(t).Limiter(reserve.Config{Name: "our-api", Limit: reserve.PerMinute(60).Burst(60)})
		if err := limiter.For("ann").WaitN(t.Context(), 20); err != nil {
			t.Fatal(err)
		}

		state, err := limiter.For("ann").State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		quota := inbound.NewQuota("basic", limiter.Limit(), state)
		fmt.Printf("%d of %d left, all of them in %v\n", quota.Remaining, quota.Permits, quota.Reset.Round(time.Second))
	})
	// Output: 40 of 60 left, all of them in 20s
}

// An answer has the headers of two limits.
func ExampleQuota_SetHeaders() {
	header := make(http.Header)
	for _, quota := range []inbound.Quota{
		{Policy: "minute", Permits: 60, Window: time.Minute, Remaining: 12, Reset: 48 * time.Second},
		{Policy: "day", Permits: 5000, Window: 24 * time.Hour, Remaining: 4100, Reset: 9 * time.Hour},
	} {
		quota.SetHeaders(header, inbound.HeadersIETF)
	}
	fmt.Println("RateLimit-Policy:", strings.Join(header.Values("RateLimit-Policy"), ", "))
	fmt.Println("RateLimit:", strings.Join(header.Values("RateLimit"), ", "))
	// Output:
	// RateLimit-Policy: "minute";q=60;w=60, "day";q=5000;w=86400
	// RateLimit: "minute";r=12;t=48, "day";r=4100;t=32400
}
