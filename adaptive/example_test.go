package adaptive_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/adaptive"
	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/reserve"
)

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
