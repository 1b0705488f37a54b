package docs_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

func lookUpAll(ctx context.Context, client redis.UniversalClient, addresses []string) error {
	// The API allows bursts of 10. Use 5, and leave the rest for network jitter.
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		return err
	}
	defer limiter.Close()
	for _, address := range addresses {
		if err := limiter.Wait(ctx); err != nil { // blocks until this call may be made
			return err
		}
		lookUp(ctx, address) // your call of the API
	}
	return nil
}
