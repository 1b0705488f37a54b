package docs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/time/rate"

	"github.com/fleetpace/fleetpace/reserve"
)

// What people do today: asynq's recipe, with a limiter in each process.
func Example_movingRecipe() {
	config := asynq.Config{Concurrency: 10}
	handler := recipe(&config)
	var err error
	for err == nil { // until the bucket is empty
		err = handler.ProcessTask(context.Background(), asynq.NewTask("geocode", nil))
	}
	delay := config.RetryDelayFunc(0, err, nil)
	fmt.Println(err, config.IsFailure(err), delay < 10*time.Second)
	// Output: too early false true
}

func geocode(context.Context, *asynq.Task) error { return nil }

func recipe(config *asynq.Config) asynq.Handler {
	limiter := rate.NewLimiter(50, 5) // of this process
	errTooEarly := errors.New("too early")
	config.IsFailure = func(err error) bool { return err != nil && !errors.Is(err, errTooEarly) }
	config.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if errors.Is(err, errTooEarly) {
			return rand.N(10 * time.Second)
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		if !limiter.Allow() {
			return errTooEarly
		}
		return geocode(ctx, task)
	})
}

// A limit for each key, with the burst that redis_rate has.
func Example_movingKeys() {
	fmt.Println(projectTurn(context.Background(), "project:123"))
	// Output: <nil>
}

func projectTurn(ctx context.Context, project string) error {
	limiter, err := reserve.New(client, reserve.Config{Name: "projects", Limit: reserve.PerSecond(10).Burst(10)}) // once
	if err != nil {
		return err
	}
	defer limiter.Close()
	if err := limiter.For(project).Wait(ctx); err != nil {
		return err
	}
	return nil
}
