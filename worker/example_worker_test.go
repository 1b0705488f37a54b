package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// newWorker is what the examples use. Yours check the errors.
func newWorker(at string, limit reserve.Limit) (paced *worker.Worker, done func()) {
	options, _ := redis.ParseURL(at)
	client := redis.NewClient(options)
	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: limit})
	if err != nil {
		log.Fatal(err)
	}
	if paced, err = worker.New(limiter, worker.Config{}); err != nil {
		log.Fatal(err)
	}
	return paced, func() { _ = limiter.Close(); _ = client.Close() }
}

// enqueue enqueues a task for each place.
func enqueue(connection asynq.RedisConnOpt, places ...string) {
	client := asynq.NewClient(connection)
	defer client.Close()
	for _, place := range places {
		if _, err := client.Enqueue(asynq.NewTask("geocode", []byte(place))); err != nil {
			log.Fatal(err)
		}
	}
}

// New checks its settings: here the limit does not say that costs are settled.
func ExampleNew() {
	at, done := redisURL()
	defer done()
	options, _ := redis.ParseURL(at)
	client := redis.NewClient(options)
	defer client.Close()
	limiter, _ := reserve.New(client, reserve.Config{Name: "tokens", Limit: reserve.PerMinute(30_000).Burst(20_000)})
	defer limiter.Close()

	_, err := worker.New(limiter, worker.Config{
		Used: func(context.Context, *asynq.Task, error) []int { return []int{900} },
	})
	fmt.Println(errors.Is(err, worker.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// worker: invalid Config.Used: "tokens" cannot be settled: set reserve.Config.Settles of its limits
}

// Tasks that wait have a room of their own beside the handlers that work.
func ExampleWorker_Apply() {
	at, done := redisURL()
	defer done()
	paced, end := newWorker(at, reserve.PerSecond(50))
	defer end()

	config := asynq.Config{Concurrency: 25}
	if err := paced.Apply(&config); err != nil {
		log.Fatal(err)
	}
	fmt.Println("tasks in the process:", config.Concurrency)
	fmt.Println("asynq looks for tasks every", config.TaskCheckInterval)
	fmt.Println("allow in a Timeout, beside what the handler needs:", paced.Patience())
	// Output:
	// tasks in the process: 1025
	// asynq looks for tasks every 100ms
	// allow in a Timeout, beside what the handler needs: 1.95s
}

func ExampleWorker_Run() {
	ctx, stop := context.WithCancel(context.Background())
	at, done := redisURL()
	defer done()
	paced, end := newWorker(at, reserve.PerSecond(50))
	defer end()
	config := asynq.Config{Concurrency: 5, LogLevel: asynq.ErrorLevel}
	if err := paced.Apply(&config); err != nil {
		log.Fatal(err)
	}
	connection, _ := asynq.ParseRedisURI(at)
	enqueue(connection, "Oslo")

	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		fmt.Printf("calls the API for %s\n", task.Payload())
		stop() // a real worker runs until SIGTERM
		return nil
	})
	if err := paced.Run(ctx, asynq.NewServer(connection, config), handler); err != nil {
		log.Fatal(err)
	}
	// Output: calls the API for Oslo
}

// A program that starts and ends the server itself. Middleware before that of the Worker sees
// all tasks that come, and middleware behind it those that have their turn.
func ExampleWorker_Middleware() {
	at, done := redisURL()
	defer done()
	paced, end := newWorker(at, reserve.PerSecond(50))
	defer end()
	config := asynq.Config{Concurrency: 5, LogLevel: asynq.ErrorLevel}
	if err := paced.Apply(&config); err != nil {
		log.Fatal(err)
	}
	connection, _ := asynq.ParseRedisURI(at)
	enqueue(connection, "Oslo")

	called := make(chan string)
	mux := asynq.NewServeMux()
	mux.Use(paced.Middleware)
	mux.HandleFunc("geocode", func(_ context.Context, task *asynq.Task) error {
		called <- string(task.Payload())
		return nil
	})
	server := asynq.NewServer(connection, config)
	if err := server.Start(mux); err != nil {
		log.Fatal(err)
	}
	fmt.Println("called for", <-called)
	paced.Shutdown(server) // in place of server.Shutdown
	// Output: called for Oslo
}

// The program ends: tasks that wait go back at once, and run elsewhere.
func ExampleWorker_Shutdown() {
	at, done := redisURL()
	defer done()
	paced, end := newWorker(at, reserve.PerSecond(50))
	defer end()
	config := asynq.Config{Concurrency: 5, LogLevel: asynq.ErrorLevel}
	if err := paced.Apply(&config); err != nil {
		log.Fatal(err)
	}
	connection, _ := asynq.ParseRedisURI(at)
	server := asynq.NewServer(connection, config)
	mux := asynq.NewServeMux()
	mux.Use(paced.Middleware)
	if err := server.Start(mux); err != nil {
		log.Fatal(err)
	}
	paced.Shutdown(server)
	fmt.Println("tasks that wait here:", paced.Stats().Asleep)
	// Output: tasks that wait here: 0
}

// A handler that waits for something else stops when the Worker drains.
func ExampleWorker_Drain() {
	at, done := redisURL()
	defer done()
	paced, end := newWorker(at, reserve.PerSecond(50))
	defer end()

	stopped := make(chan bool)
	go func() {
		select {
		case <-paced.Draining():
			stopped <- true
		case <-time.After(time.Hour):
			stopped <- false
		}
	}()
	paced.Drain()
	fmt.Println(<-stopped)
	// Output: true
}

// How late a task runs: its turn came, and then a handler had to be free.
func ExampleDue() {
	ctx, stop := context.WithCancel(context.Background())
	at, done := redisURL()
	defer done()
	paced, end := newWorker(at, reserve.PerSecond(50))
	defer end()
	config := asynq.Config{Concurrency: 5, LogLevel: asynq.ErrorLevel}
	if err := paced.Apply(&config); err != nil {
		log.Fatal(err)
	}
	connection, _ := asynq.ParseRedisURI(at)
	enqueue(connection, "Oslo")

	handler := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		defer stop() // a real worker runs until SIGTERM
		due, ok := worker.Due(ctx)
		fmt.Println("had a turn:", ok)
		fmt.Println("runs after it has come:", time.Since(due) >= 0)
		return nil
	})
	if err := paced.Run(ctx, asynq.NewServer(connection, config), handler); err != nil {
		log.Fatal(err)
	}
	// Output:
	// had a turn: true
	// runs after it has come: true
}

// Metrics of tasks do not count those that only go back to wait.
func ExampleIsWaiting() {
	at, done := redisURL()
	defer done()
	paced, end := newWorker(at, reserve.PerHour(1))
	defer end()
	config := asynq.Config{Concurrency: 5, LogLevel: asynq.ErrorLevel}
	if err := paced.Apply(&config); err != nil {
		log.Fatal(err)
	}
	connection, _ := asynq.ParseRedisURI(at)
	enqueue(connection, "Oslo", "Lima")

	results := make(chan string, 2)
	mux := asynq.NewServeMux()
	mux.Use(func(next asynq.Handler) asynq.Handler { // around the Worker's
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := next.ProcessTask(ctx, task)
			switch {
			case worker.IsWaiting(err):
				results <- "a task waits for its turn"
			case err != nil:
				results <- "a task failed"
			default:
				results <- "a task is done"
			}
			return err
		})
	}, paced.Middleware)
	mux.HandleFunc("geocode", func(context.Context, *asynq.Task) error { return nil })
	server := asynq.NewServer(connection, config)
	if err := server.Start(mux); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-results)
	fmt.Println(<-results)
	paced.Shutdown(server)
	// Unordered output:
	// a task is done
	// a task waits for its turn
}

// Headers say what most tasks need, and the program knows better of some.
func ExampleFromHeaders() {
	need := func(ctx context.Context, task *asynq.Task) (worker.Need, error) {
		if task.Type() == "cleanup" {
			return worker.Need{Skip: true}, nil
		}
		return worker.FromHeaders(ctx, task)
	}

	batch := asynq.NewTaskWithHeaders("sync-stock", nil, worker.Need{Key: "acme", Costs: []int{1, 200}}.Headers())
	turn, err := need(context.Background(), batch)
	fmt.Println(turn.Key, turn.Costs, err)
	turn, err = need(context.Background(), asynq.NewTask("cleanup", nil))
	fmt.Println(turn.Skip, err)

	wrong := asynq.NewTaskWithHeaders("sync-stock", nil, map[string]string{"fleetpace-cost": "many"})
	_, err = need(context.Background(), wrong)
	fmt.Println(err)
	// Output:
	// acme [1 200] <nil>
	// true <nil>
	// invalid header fleetpace-cost: must be a whole number of at least 1, or several with commas between them, got "many"
}
