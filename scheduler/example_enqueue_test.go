package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
	"github.com/fleetpace/fleetpace/worker"
)

// The workers and the scheduler agree on what a task needs, and on how long before its turn
// it comes up.
func ExampleNew() {
	connection, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(connection, reserve.Config{Name: "maps-api", Limit: reserve.PerHour(2)})
	defer limiter.Close()
	need := func(_ context.Context, task *asynq.Task) (worker.Need, error) {
		return worker.Need{Key: string(task.Payload())}, nil // a limit for each tenant
	}

	paced, err := worker.New(limiter, worker.Config{Need: need})
	if err != nil {
		log.Fatal(err)
	}
	config := asynq.Config{Concurrency: 25, DelayedTaskCheckInterval: time.Second}
	if err := paced.Apply(&config); err != nil {
		log.Fatal(err)
	}
	tasks, err := scheduler.New(asynq.NewClientFromRedisClient(connection), limiter,
		scheduler.Config{Need: need, Lead: paced.Lead()})
	if err != nil {
		log.Fatal(err)
	}

	for _, tenant := range []string{"acme", "zenith", "acme"} {
		forecast, err := tasks.Enqueue(context.Background(), asynq.NewTask("sync-stock", []byte(tenant)))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: in %v\n", tenant, time.Until(forecast.At).Round(time.Minute))
	}
	// Output:
	// acme: in 0s
	// zenith: in 0s
	// acme: in 30m0s
}

// A task whose turn would come after its Deadline is refused, and has taken nothing.
func ExampleScheduler_Enqueue() {
	connection, stop := startRedis()
	defer stop()
	limiter, _ := reserve.New(connection, reserve.Config{Name: "maps-api", Limit: reserve.PerHour(2)})
	defer limiter.Close()
	tasks, _ := scheduler.New(asynq.NewClientFromRedisClient(connection), limiter, scheduler.Config{})

	ctx := context.Background()
	for _, place := range []string{"Oslo", "Lima", "Pune"} {
		forecast, err := tasks.Enqueue(ctx, asynq.NewTask("geocode", []byte(place)),
			asynq.Deadline(time.Now().Add(45*time.Minute)))
		if errors.Is(err, reserve.ErrWouldMissDeadline) {
			fmt.Printf("%s: its turn would be too late\n", place)
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: in %v\n", place, time.Until(forecast.At).Round(time.Minute))
	}
	// Output:
	// Oslo: in 0s
	// Lima: in 30m0s
	// Pune: its turn would be too late
}
