package docs_test

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

func Example_redis() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ReadTimeout: 500 * time.Millisecond, DialerRetries: 1})
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(limiter.Close(), client.Close()) // nothing was asked of Redis yet
	// Output: <nil> <nil>
}
