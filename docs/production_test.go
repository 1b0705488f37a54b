package docs_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

func run(redisURL string, jobs []string) error {
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	options.ReadTimeout, options.DialerRetries = 500*time.Millisecond, 1 // so that an outage is noticed soon
	client := redis.NewClient(options)
	defer client.Close() // after the limiter
	limiter, err := reserve.New(client, reserve.Config{
		Name:   "maps-api",
		Limit:  reserve.PerSecond(50).Burst(5),             // the API allows bursts of 10
		Outage: reserve.Outage{Policy: reserve.PolicyWait}, // calls wait until Redis is back
		Logger: slog.Default(),
	})
	if err != nil {
		return err
	}
	defer limiter.Close() // after the last call
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, job := range jobs {
		if err := limiter.Wait(ctx); err != nil {
			return err // no call was made: put the job back
		}
		do(context.WithoutCancel(ctx), job) // SIGTERM lets a call end
	}
	return nil
}
