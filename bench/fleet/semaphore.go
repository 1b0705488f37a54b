package main

import (
	"context"
	"fmt"
	"time"

	old "github.com/go-redis/redis/v8"
	"github.com/hibiken/asynq"
	"github.com/hibiken/asynq/x/rate"
)

// oldRedis connects the semaphore, which was made for an older go-redis.
type oldRedis struct{ url string }

func (o oldRedis) MakeRedisClient() any {
	options, err := old.ParseURL(o.url)
	if err != nil {
		panic(err)
	}
	return old.NewClient(options)
}

// semaphoreAgain is after how long a task comes again that has no slot, as in the example of
// asynq's x/rate.
const semaphoreAgain = 30 * time.Second

// serveSemaphore is what asynq has for calls at once: a semaphore that a handler tries to take,
// and a task that does not get it goes back.
func serveSemaphore(m *member) (asynq.Handler, error) {
	if len(m.setup.Limits) > 1 {
		return nil, fmt.Errorf("the semaphore is for one limit, got %d", len(m.setup.Limits))
	}
	l := m.setup.Limits[0]
	semaphore := rate.NewSemaphore(oldRedis{m.setup.Redis}, l.Name, l.Slots)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		ok, err := semaphore.Acquire(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return notAllowed(semaphoreAgain)
		}
		defer func() { _ = semaphore.Release(ctx) }()
		return m.call(ctx, task, time.Now())
	}), nil
}
