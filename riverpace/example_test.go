package riverpace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/riverpace"
)

// The lines marked + pace a River client.
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

// Jobs have fair shares by their customers, and some need no turn.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer func() { _ = client.Close() }()
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(100)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = limiter.Close() }()

	paced, err := riverpace.New(limiter, riverpace.Config{
		Need: func(_ context.Context, job *rivertype.JobRow) (riverpace.Need, error) {
			if job.Kind == "report" { // it calls no API
				return riverpace.Need{Skip: true}, nil
			}
			var args struct {
				Customer string `json:"customer"`
			}
			if err := json.Unmarshal(job.EncodedArgs, &args); err != nil {
				return riverpace.Need{}, err
			}
			return riverpace.Need{Limits: limiter.Flow(args.Customer)}, nil
		},
	})
	fmt.Println(paced != nil, err)
	// Output: true <nil>
}

// How long a job may wait in its worker follows from how often River looks for jobs.
func ExamplePacer_Apply() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer func() { _ = client.Close() }()
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(100)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = limiter.Close() }()

	for _, interval := range []time.Duration{river.FetchPollIntervalDefault, 200 * time.Millisecond} {
		config := &river.Config{FetchPollInterval: interval}
		paced, err := riverpace.New(limiter, riverpace.Config{})
		if err != nil {
			log.Fatal(err)
		}
		if err := paced.Apply(config); err != nil {
			log.Fatal(err)
		}
		fmt.Println("looks every", interval, "and waits in the worker for up to", paced.Patience())
	}
	// Output:
	// looks every 1s and waits in the worker for up to 2.3s
	// looks every 200ms and waits in the worker for up to 1.42s
}

// chatArgs is a job whose cost is known when the response is there.
type chatArgs struct{}

func (chatArgs) Kind() string { return "chat" }

// chat stands for a call of yours; it returns how many tokens it has used.
func chat(context.Context) (tokens int, err error) { return 200, nil }

// A job reports how much its call has used of a limit that settles.
func ExampleReservation() {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[chatArgs]) error {
		tokens, err := chat(ctx)
		if err != nil {
			return err
		}
		return riverpace.Reservation(ctx).Settle(ctx, tokens)
	}))
}
