package worker_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/embedded"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// An asynq worker as there are many, and the lines (marked +) that pace it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	at, done := redisURL()
	defer done()

	var calls sync.WaitGroup
	mux := asynq.NewServeMux()
	mux.HandleFunc("geocode", func(_ context.Context, task *asynq.Task) error {
		fmt.Printf("calls the API for %s\n", task.Payload())
		calls.Done()
		return nil
	})
	config := asynq.Config{Concurrency: 25, LogLevel: asynq.ErrorLevel}

	options, _ := redis.ParseURL(at)
	client := redis.NewClient(options)                                                                  // +
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50)}) // +
	if err != nil {                                                                                     // +
		log.Fatal(err) // +
	} // +
	defer limiter.Close()                              // +
	paced, err := worker.New(limiter, worker.Config{}) // +
	if err != nil {                                    // +
		log.Fatal(err) // +
	} // +
	if err := paced.Apply(&config); err != nil { // +
		log.Fatal(err) // +
	} // +

	connection, _ := asynq.ParseRedisURI(at)
	server := asynq.NewServer(connection, config)

	enqueuer := asynq.NewClient(connection)
	for _, place := range []string{"Oslo", "Lima", "Pune"} {
		calls.Add(1)
		if _, err := enqueuer.Enqueue(asynq.NewTask("geocode", []byte(place))); err != nil {
			log.Fatal(err)
		}
	}
	go func() { calls.Wait(); stop() }() // a real worker runs until SIGTERM

	if err := paced.Run(ctx, server, mux); err != nil { // instead of server.Run(mux)
		log.Fatal(err)
	}
	// Unordered output:
	// calls the API for Oslo
	// calls the API for Lima
	// calls the API for Pune
}

// A limit for each tenant, an endpoint with a limit of its own, and tasks that
// cost more or nothing.
func ExampleConfig() {
	at, done := redisURL()
	defer done()
	options, _ := redis.ParseURL(at)
	client := redis.NewClient(options)
	tenants, _ := reserve.New(client, reserve.Config{Name: "shop-api", Limit: reserve.PerSecond(2).Burst(40)})
	search, _ := reserve.New(client, reserve.Config{Name: "shop-search", Limit: reserve.PerMinute(30)})

	_, err := worker.New(tenants, worker.Config{
		Need: func(_ context.Context, task *asynq.Task) (worker.Need, error) {
			tenant := string(task.Payload())
			switch task.Type() {
			case "search":
				return worker.Need{Limits: search}, nil
			case "bulk-update":
				return worker.Need{Key: tenant, Cost: 10}, nil
			case "cleanup":
				return worker.Need{Skip: true}, nil
			}
			return worker.Need{Key: tenant}, nil
		},
	})
	fmt.Println(err)
	// Output: <nil>
}

// redisURL is the address of an embedded Redis.
func redisURL() (address string, done func()) {
	server, err := embedded.Start("")
	if err != nil {
		log.Fatal(err)
	}
	return server.URL(), server.Close
}

// Whoever enqueues a task says what it needs.
func ExampleNeed_Headers() {
	task := asynq.NewTaskWithHeaders("sync-stock", nil, worker.Need{Key: "acme", Cost: 10, Flow: "acme"}.Headers())
	turn, err := worker.FromHeaders(context.Background(), task)
	fmt.Println(turn.Key, turn.Cost, turn.Flow, err)
	// Output: acme 10 acme <nil>
}
