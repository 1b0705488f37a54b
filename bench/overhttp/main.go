// Command overhttp measures turns over HTTP: how many requests per second a server answers
// while permits are available, beside a bare net/http handler that asks redis_rate; and what
// 2,000 callers that wait cost it.
//
//	go run ./overhttp
//
// Each server is a process of its own, and this one plays the callers. All are on one machine:
// ratios count.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

func main() {
	child.Main(child.Roles{serverRole: serverMain, redisserver.KeeperRole: redisserver.Keep})
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "overhttp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	redis, err := redisserver.Start()
	if err != nil {
		return err
	}
	defer redis.Stop()
	fmt.Printf("requests per second, 64 callers, permits available (three turns each, one after the other)\n")
	best := map[string]float64{}
	for range 3 {
		for _, role := range []string{"net/http alone", "redis_rate", "fleetpace", "fleetpace with a lease"} {
			rate, err := throughput(ctx, role, redis.Address)
			if err != nil {
				return err
			}
			fmt.Printf("  %-24s %8.0f\n", role, rate)
			best[role] = max(best[role], rate)
		}
	}
	for _, role := range []string{"net/http alone", "fleetpace", "fleetpace with a lease"} {
		fmt.Printf("  %s / redis_rate: %.2f\n", role, best[role]/best["redis_rate"])
	}
	return waits(ctx, redis.Address, 2000, 10*time.Second)
}
