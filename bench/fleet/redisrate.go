package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/hibiken/asynq"
)

// redisRate is the peers' limiter.
type redisRate struct {
	limiter *redis_rate.Limiter
	limits  []limit
}

func newRedisRate(m *member) redisRate {
	return redisRate{redis_rate.NewLimiter(m.redis), m.setup.Limits}
}

// answer is what the limiter said, and when.
type answer struct {
	allowed    bool
	retryAfter time.Duration
	at         time.Time
}

func (a answer) promise() time.Time { return a.at.Add(a.retryAfter) }

func (r redisRate) ask(ctx context.Context, task *asynq.Task) (answer, error) {
	line := string(task.Payload())
	name, _ := splitLine(line)
	l, err := limitNamed(r.limits, name)
	if err != nil {
		return answer{}, err
	}
	rate, burst := l.forLimiters()
	// Its rate is a whole number, so a fraction has to be in the period.
	limit := redis_rate.Limit{Rate: 1, Period: time.Duration(float64(time.Second) / rate), Burst: burst}
	result, err := r.limiter.Allow(ctx, line, limit)
	if err != nil {
		return answer{}, err
	}
	return answer{allowed: result.Allowed > 0, retryAfter: result.RetryAfter, at: time.Now()}, nil
}
