package docs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/reserve"
)

func Example_outages() {
	limiter, err := reserve.New(client, reserve.Config{
		Name:   "maps-api",
		Limit:  reserve.PerSecond(50).Burst(5),
		Outage: reserve.Outage{Policy: reserve.PolicyLocal}, // the default
		Logger: slog.Default(),                              // logs the beginning and the end of each outage
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	fmt.Println(limiter.Wait(context.Background()))
	// Output: <nil>
}

func Example_outagesTimeouts() {
	client := redis.NewClient(&redis.Options{
		Addr:          "localhost:6379",
		ReadTimeout:   500 * time.Millisecond, // go-redis's default: 5 s
		DialerRetries: 1,                      // go-redis's default: 5 attempts
	})
	fmt.Println(client.Close())
	// Output: <nil>
}

func fromCache(address string) string { return address + ", as it was" }

func lookUpOrRemember(ctx context.Context, limiter *reserve.Limiter, address string) (string, error) {
	err := limiter.Wait(ctx)
	if errors.Is(err, reserve.ErrUnavailable) {
		return fromCache(address), nil // Redis is unreachable
	}
	if err != nil {
		return "", err
	}
	return address, nil
}

func Example_outagesFail() {
	server, err := embedded.Start("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1, MaxRetries: -1})
	defer client.Close()
	limiter, err := reserve.New(client, reserve.Config{
		Name: "outages-fail", Limit: reserve.PerSecond(50).Burst(5), Logger: slog.New(slog.DiscardHandler),
		Outage: reserve.Outage{Policy: reserve.PolicyFail, Failures: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	fmt.Println(lookUpOrRemember(context.Background(), limiter, "Oslo"))
	server.Close()
	fmt.Println(lookUpOrRemember(context.Background(), limiter, "Oslo"))
	// Output:
	// Oslo <nil>
	// Oslo, as it was <nil>
}
