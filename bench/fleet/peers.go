package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// putBack is the error by which a task goes back to its queue and comes again.
type putBack struct{ after time.Duration }

func (p *putBack) Error() string { return fmt.Sprintf("not allowed now, again in %v", p.after) }

// putsBack lets asynq put tasks back that were not allowed, as its wiki says under Rate Limiting.
func putsBack(config *asynq.Config) {
	var back *putBack
	config.IsFailure = func(err error) bool { return !errors.As(err, &back) }
	config.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		var back *putBack
		if errors.As(err, &back) {
			return back.after
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
}

// askRedisRate asks redis_rate about the limit of a task.
func (m *member) askRedisRate() func(ctx context.Context, task *asynq.Task) (*redis_rate.Result, error) {
	limiter := redis_rate.NewLimiter(m.redis)
	return func(ctx context.Context, task *asynq.Task) (*redis_rate.Result, error) {
		rate, burst := m.limit(task).forLimiters()
		// Its rate is a whole number, so a fraction is in the period.
		return limiter.Allow(ctx, string(task.Payload()), redis_rate.Limit{Rate: 1, Period: time.Duration(float64(time.Second) / rate), Burst: burst})
	}
}

// serveRecipe is what asynq's wiki documents (https://github.com/hibiken/asynq/wiki/Rate-Limiting),
// with redis_rate for the whole fleet: a task that is not allowed goes back for a random 0 to 9 s.
// The limiter tells all the same moment; without that they would all come back at once.
func serveRecipe(m *member, config *asynq.Config) (asynq.Handler, error) {
	putsBack(config)
	allow := m.askRedisRate()
	spread := func() time.Duration { return time.Duration(rand.N(10)) * time.Second }
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		answer, err := allow(ctx, task)
		if err != nil {
			return err
		}
		if answer.Allowed == 0 {
			return &putBack{max(answer.RetryAfter, spread())}
		}
		if err = m.call(ctx, task); errors.Is(err, errRefused) {
			return &putBack{spread()}
		}
		return err
	}), nil
}

// serveSleeper sleeps in the handler for as long as redis_rate says, and asks again.
func serveSleeper(m *member, _ *asynq.Config) (asynq.Handler, error) {
	allow := m.askRedisRate()
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		for {
			answer, err := allow(ctx, task)
			if err != nil {
				return err
			}
			if answer.Allowed > 0 {
				return m.call(ctx, task)
			}
			select {
			case <-time.After(answer.RetryAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}), nil
}

// inWindow counts a call in the window of now, and returns 0, or the millis until the next one.
var inWindow = redis.NewScript(`
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if count <= tonumber(ARGV[1]) then return 0 end
return redis.call('PTTL', KEYS[1])`)

// serveWindow counts calls in fixed windows, as Hatchet does: a task that finds its window full goes
// back until the next one. A window has as many calls as the limiter's burst, since all of them may
// come at once.
func serveWindow(m *member, config *asynq.Config) (asynq.Handler, error) {
	putsBack(config)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		rate, burst := m.limit(task).forLimiters()
		wait, err := inWindow.Run(ctx, m.redis, []string{"window:" + string(task.Payload())}, burst, int(1000*float64(burst)/rate)).Int()
		if err != nil {
			return err
		}
		if wait > 0 {
			return &putBack{time.Duration(wait) * time.Millisecond}
		}
		if err = m.call(ctx, task); errors.Is(err, errRefused) {
			return &putBack{time.Second}
		}
		return err
	}), nil
}
