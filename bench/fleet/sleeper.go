package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
)

func serveSleeper(m *member, _ *asynq.Config) (asynq.Handler, error) {
	limits := newRedisRate(m)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		var promised time.Time
		for {
			answer, err := limits.ask(ctx, task)
			if err != nil {
				return err
			}
			if answer.allowed {
				if promised.IsZero() {
					promised = answer.at
				}
				return m.call(ctx, task, promised)
			}
			promised = answer.promise()
			select {
			case <-time.After(answer.retryAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}), nil
}
