package docs_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

func lookUpAll(ctx context.Context, client redis.UniversalClient, addresses []string) error {
	// The API bears a burst of 10: half of it is for what the network delays.
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		return err
	}
	defer limiter.Close()
	for _, address := range addresses {
		if err := limiter.Wait(ctx); err != nil { // returns when it is this call's turn
			return err
		}
		lookUp(ctx, address)
	}
	return nil
}
