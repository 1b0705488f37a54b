package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
)

// rateLimitError is the error by which the recipe of asynq's wiki
// (https://github.com/hibiken/asynq/wiki/Rate-Limiting) puts a task back.
type rateLimitError struct{ retryIn time.Duration }

func (e *rateLimitError) Error() string {
	return fmt.Sprintf("not allowed now, again in %v", e.retryIn)
}

// spread is over how many seconds the recipe spreads those that were not
// allowed. The limiter tells all of them the same moment, so without it they
// would all come back at once.
const spread = 10

func notAllowed(retryAfter time.Duration) error {
	return &rateLimitError{retryIn: max(retryAfter, time.Duration(rand.N(spread))*time.Second)}
}

func isRateLimitError(err error) bool {
	var limited *rateLimitError
	return errors.As(err, &limited)
}

func serveRecipe(m *member, config *asynq.Config) (asynq.Handler, error) {
	config.IsFailure = func(err error) bool { return !isRateLimitError(err) }
	config.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		var limited *rateLimitError
		if errors.As(err, &limited) {
			return limited.retryIn
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	if m.setup.Limits[0].Slots > 0 {
		return serveSemaphore(m)
	}
	limits := newRedisRate(m)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		answer, err := limits.ask(ctx, task)
		if err != nil {
			return err
		}
		if !answer.allowed {
			// The task comes again in any process: the parent keeps the promise.
			m.promise(ctx, answer.promise())
			return notAllowed(answer.retryAfter)
		}
		err = m.call(ctx, task, answer.at)
		if errors.Is(err, errRefused) {
			return notAllowed(0)
		}
		return err
	}), nil
}
