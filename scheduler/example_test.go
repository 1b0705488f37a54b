package scheduler_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
)

// startRedis stands for your own Redis.
func startRedis() (*redis.Client, func()) {
	server, err := embedded.Start("")
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return client, func() { _ = client.Close(); server.Close() }
}

func Example() {
	ctx := context.Background()
	connection, stop := startRedis()
	defer stop()

	limiter, err := reserve.New(connection, reserve.Config{Name: "maps-api", Limit: reserve.PerHour(2)})
	if err != nil {
		log.Fatal(err)
	}
	tasks, err := scheduler.New(asynq.NewClientFromRedisClient(connection), limiter, scheduler.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, place := range []string{"Oslo", "Lima", "Pune"} {
		forecast, err := tasks.Enqueue(ctx, asynq.NewTask("geocode", []byte(place)), asynq.MaxRetry(5))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: in %v\n", place, time.Until(forecast.At).Round(time.Minute))
	}
	// Output:
	// Oslo: in 0s
	// Lima: in 30m0s
	// Pune: in 1h0m0s
}

// Many tasks for several tenants, each with a queue of its own. Those that would
// run too late are refused, and the others are not held up.
func ExampleScheduler_EnqueueAll() {
	connection, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(connection, reserve.Config{Name: "shop-api", Limit: reserve.PerHour(2)})
	tasks, _ := scheduler.New(asynq.NewClientFromRedisClient(connection), limiter, scheduler.Config{})

	var items []scheduler.Item
	for _, tenant := range []string{"acme", "zenith", "acme", "acme"} {
		turn := scheduler.Need{Key: tenant}
		items = append(items, scheduler.Item{
			Task:    asynq.NewTaskWithHeaders("sync-stock", nil, turn.Headers()),
			Options: []asynq.Option{asynq.Deadline(time.Now().Add(45 * time.Minute))},
		})
	}
	forecasts, err := tasks.EnqueueAll(context.Background(), items)
	for i, forecast := range forecasts {
		if forecast.Err == nil {
			fmt.Printf("item %d: in %v\n", i, time.Until(forecast.At).Round(time.Minute))
		}
	}
	text, _, _ := strings.Cut(err.Error(), ": the turn is in")
	fmt.Println(text)
	// Output:
	// item 0: in 0s
	// item 1: in 0s
	// item 2: in 30m0s
	// scheduler: 1 of 4 tasks were not enqueued; the first: item 3, task of type "sync-stock": reserve: book "shop-api/acme": would miss the deadline
}
