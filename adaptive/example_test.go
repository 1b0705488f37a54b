package adaptive_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/embedded"
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

// callAPI stands for a call: the third one is refused.
func callAPI(n int) int {
	if n == 3 {
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// waitForChange stands for time that passes.
func waitForChange(limiter *reserve.Limiter, from float64) reserve.State {
	for {
		state, err := limiter.State(context.Background())
		if err != nil || state.Rate != from {
			return state
		}
		time.Sleep(time.Millisecond)
	}
}

// A refusal lowers the rate of the whole fleet, once.
func Example() {
	client, stop := startRedis()
	defer stop()
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(100)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	rate, err := adaptive.New(client, limiter, adaptive.Config{
		Floor:   reserve.PerSecond(1),
		Ceiling: reserve.PerSecond(200),
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = rate.Close() }()

	for n := range 5 {
		if err := limiter.Wait(context.Background()); err != nil {
			fmt.Println(err)
			return
		}
		sent := time.Now()
		status := callAPI(n)
		rate.Report(sent, status == http.StatusTooManyRequests)
	}
	state := waitForChange(limiter, 100)
	fmt.Printf("%.0f/s\n", state.Rate)
	// Output: 70/s
}

// A limit that is not known yet: the rate begins at the limiter's own and goes up to the ceiling.
func ExampleNew() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(1)})
		rate, err := adaptive.New(server.Client(), limiter, adaptive.Config{
			Floor:    reserve.PerMinute(10),
			Ceiling:  reserve.PerSecond(3),
			Increase: 1, // permit per second, every 10 s
			Logger:   slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rate.Close() }()

		for range 90 { // about 40 s of simulated time
			if err := limiter.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			rate.Report(time.Now(), false)
		}
		state, err := limiter.State(t.Context())
		fmt.Printf("%.0f/s %v\n", state.Rate, err)
	})
	// Output: 3/s <nil>
}

// Each host has a rate of its own.
func ExampleRate_For() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{Name: "hosts", Limit: reserve.PerSecond(10)})
		rate, err := adaptive.New(server.Client(), limiter, adaptive.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rate.Close() }()

		for _, host := range []string{"a.example", "b.example"} {
			if err := limiter.For(host).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			rate.For(host).Report(time.Now(), host == "b.example") // that one refuses
		}
		time.Sleep(3 * time.Second) // of simulated time
		for _, host := range []string{"a.example", "b.example"} {
			state, err := limiter.For(host).State(t.Context())
			fmt.Printf("%s: %.0f/s %v\n", host, state.Rate, err)
		}
	})
	// Output:
	// a.example: 10/s <nil>
	// b.example: 7/s <nil>
}

// A call that cost several permits counts as many towards what was used.
func ExampleRate_ReportN() {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		limiter := server.Limiter(reserve.Config{Name: "tokens", Limit: reserve.PerSecond(1000).Burst(500)})
		rate, err := adaptive.New(server.Client(), limiter, adaptive.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rate.Close() }()

		if err := limiter.WaitN(t.Context(), 400); err != nil {
			t.Fatal(err)
		}
		rate.ReportN(time.Now(), 400, true)
		time.Sleep(3 * time.Second) // of simulated time
		state, err := limiter.State(t.Context())
		fmt.Printf("%.0f/s %v\n", state.Rate, err)
	})
	// Output: 700/s <nil>
}
