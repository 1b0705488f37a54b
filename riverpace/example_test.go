package riverpace_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/riverpace"
)

// A River client as there are many, and the lines (marked +) that pace it.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://localhost/jobs")
	if err != nil {
		log.Fatal(err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[callArgs]) error {
		return nil // calls the API
	}))
	config := &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 200}},
		Workers: workers,
	}

	limits := redis.NewClient(&redis.Options{Addr: "localhost:6379"})                                    // +
	limiter, err := reserve.New(limits, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(100)}) // +
	if err != nil {                                                                                      // +
		log.Fatal(err) // +
	} // +
	defer limiter.Close()                                    // +
	paced, err := riverpace.New(limiter, riverpace.Config{}) // +
	if err != nil {                                          // +
		log.Fatal(err) // +
	} // +
	if err := paced.Apply(config); err != nil { // +
		log.Fatal(err) // +
	} // +

	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-client.Stopped()
}
