package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
	"github.com/fleetpace/fleetpace/worker"
)

func serveTwo(ctx context.Context, client redis.UniversalClient, connection asynq.RedisConnOpt, mux *asynq.ServeMux) error {
	maps, err := reserve.New(client, reserve.Config{Name: "maps", Limit: reserve.PerSecond(50).Burst(5)})
	if err != nil {
		return err
	}
	defer maps.Close()
	shops, err := reserve.New(client, reserve.Config{Name: "shops", Group: "shop-api", Limit: reserve.PerSecond(2).Burst(30)})
	if err != nil {
		return err
	}
	defer shops.Close()
	account, err := reserve.New(client, reserve.Config{Name: "account", Group: "shop-api", Limit: reserve.PerSecond(40).Burst(3)})
	if err != nil {
		return err
	}
	defer account.Close()
	shopAPI, err := reserve.All(shops, account)
	if err != nil {
		return err
	}

	paced, err := worker.New(maps, worker.Config{
		Need: func(_ context.Context, task *asynq.Task) (worker.Need, error) {
			tenant := string(task.Payload())
			switch task.Type() {
			case "geocode": // a limit for each tenant at the maps
				return worker.Need{Key: tenant}, nil
			case "sync-shop": // the tenant's limit, and its fair share of the account's
				return worker.Need{Limits: shopAPI, Key: tenant, Flow: tenant}, nil
			}
			return worker.Need{Skip: true}, nil // it calls no API
		},
	})
	if err != nil {
		return err
	}
	config := asynq.Config{Concurrency: 25}
	if err := paced.Apply(&config); err != nil {
		return err
	}
	return paced.Run(ctx, asynq.NewServer(connection, config), mux)
}

func Example_asynq() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var done sync.WaitGroup
	mux := asynq.NewServeMux()
	connection := asynq.RedisClientOpt{Addr: client.Options().Addr}
	enqueuer := asynq.NewClient(connection)
	defer enqueuer.Close()
	for _, kind := range []string{"geocode", "sync-shop", "cleanup"} {
		mux.HandleFunc(kind, func(_ context.Context, task *asynq.Task) error {
			fmt.Printf("%s for %s\n", task.Type(), task.Payload())
			done.Done()
			return nil
		})
		done.Add(1)
		if _, err := enqueuer.Enqueue(asynq.NewTask(kind, []byte("acme"))); err != nil {
			fmt.Println(err)
		}
	}
	go func() { done.Wait(); stop() }()
	if err := serveTwo(ctx, client, connection, mux); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// geocode for acme
	// sync-shop for acme
	// cleanup for acme
}

func Example_asynqSettle() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	connection := asynq.RedisClientOpt{Addr: client.Options().Addr}
	enqueuer := asynq.NewClient(connection)
	defer enqueuer.Close()
	task := asynq.NewTaskWithHeaders("summarize", nil, worker.Need{Cost: 600}.Headers())
	if _, err := enqueuer.Enqueue(task, asynq.Queue("docs-used")); err != nil {
		fmt.Println(err)
	}
	complete := func(context.Context, *asynq.Task) (tokens int, err error) {
		stop() // a worker runs until SIGTERM
		return 200, nil
	}
	if err := serveTokens(ctx, connection, complete); err != nil {
		fmt.Println(err)
	}
	// Output: 2300 tokens left
}

func serveTokens(ctx context.Context, connection asynq.RedisConnOpt, complete func(context.Context, *asynq.Task) (int, error)) error {
	tokens, err := reserve.New(client, reserve.Config{Name: "asynq-tokens", Settles: true, Limit: reserve.PerHour(60).Burst(2500)})
	if err != nil {
		return err
	}
	defer tokens.Close()
	paced, err := worker.New(tokens, worker.Config{})
	if err != nil {
		return err
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc("summarize", func(ctx context.Context, task *asynq.Task) error {
		n, err := complete(ctx, task)
		if err != nil {
			return err
		}
		return worker.Settle(ctx, n)
	})
	config := asynq.Config{Queues: map[string]int{"docs-used": 1}}
	if err := paced.Apply(&config); err != nil {
		return err
	}
	if err := paced.Run(ctx, asynq.NewServer(connection, config), mux); err != nil {
		return err
	}
	state, err := tokens.State(context.Background())
	if err != nil {
		return err
	}
	fmt.Printf("%.0f tokens left\n", state.Stored)
	return nil
}

func Example_asynqForecast() {
	limiter, err := reserve.New(client, reserve.Config{Name: "asynq-forecast", Limit: reserve.PerHour(2)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	connection := asynq.RedisClientOpt{Addr: client.Options().Addr}
	if err := enqueueAll(context.Background(), limiter, connection, []string{"Oslo", "Lima", "Pune"}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Oslo: in 0s
	// Lima: in 30m0s
	// Pune: in 1h0m0s
}

func enqueueAll(ctx context.Context, limiter *reserve.Limiter, connection asynq.RedisConnOpt, places []string) error {
	enqueuer := asynq.NewClient(connection)
	defer enqueuer.Close()
	tasks, err := scheduler.New(enqueuer, limiter, scheduler.Config{})
	if err != nil {
		return err
	}
	var items []scheduler.Item
	for _, place := range places {
		task := asynq.NewTask("geocode", []byte(place), asynq.MaxRetry(0), asynq.Queue("later"))
		items = append(items, scheduler.Item{Task: task})
	}
	forecasts, err := tasks.EnqueueAll(ctx, items)
	for i, forecast := range forecasts {
		fmt.Printf("%s: in %v\n", places[i], time.Until(forecast.At).Round(time.Minute))
	}
	return err
}

var errRefused = errors.New("the API has refused the call")

// heed is for a handler that has called an API.
func heed(ctx context.Context, maps *reserve.Limiter, tenant string, response *http.Response, retryAfter time.Duration) error {
	if response.StatusCode == http.StatusTooManyRequests {
		err := maps.For(tenant).Pause(ctx, retryAfter, "429")
		return errors.Join(errRefused, err)
	}
	return nil
}

func Example_asynqRefused() {
	maps, err := reserve.New(client, reserve.Config{Name: "asynq-refused", Limit: reserve.PerSecond(50)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer maps.Close()
	err = heed(context.Background(), maps, "acme", &http.Response{StatusCode: http.StatusTooManyRequests}, time.Minute)
	state, stateErr := maps.For("acme").State(context.Background())
	fmt.Println(err, state.Paused > 50*time.Second, stateErr)
	// Output: the API has refused the call true <nil>
}
