package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// turns are the limiters of a scenario, for workers and the scheduler alike.
type turns map[string]*reserve.Limiter

func newTurns(client *redis.Client, limits []limit) (turns, error) {
	t := make(turns)
	for _, l := range limits {
		rate, burst := l.forLimiters()
		limit := reserve.PerSecond(rate).Burst(burst)
		if l.Slots > 0 {
			limit = reserve.Concurrent(l.Slots)
		}
		limiter, err := reserve.New(client, reserve.Config{Name: l.Name, Limit: limit})
		if err != nil {
			return nil, err
		}
		t[l.Name] = limiter
	}
	return t, nil
}

func (t turns) of(ctx context.Context, task *asynq.Task) (worker.Turn, error) {
	name, tenant := splitLine(string(task.Payload()))
	if t[name] == nil {
		return worker.Turn{}, fmt.Errorf("there is no limit %q", name)
	}
	turn, err := worker.FromHeaders(ctx, task)
	turn.Limits, turn.Key = t[name], tenant
	return turn, err
}

// newPacer makes the Worker and puts it into the server's configuration.
func newPacer(t turns, limits []limit, config *asynq.Config) (*worker.Worker, error) {
	w, err := worker.New(t[limits[0].Name], worker.Config{Turn: t.of})
	if err != nil {
		return nil, err
	}
	return w, w.Apply(config)
}

// servePaced does not use Worker.Run, because entries are counted outside of the
// Worker's middleware.
func servePaced(m *member, config *asynq.Config) (asynq.Handler, error) {
	t, err := newTurns(m.redis, m.setup.Limits)
	if err != nil {
		return nil, err
	}
	w, err := newPacer(t, m.setup.Limits, config)
	if err != nil {
		return nil, err
	}
	return w.Middleware(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		due, ok := worker.Due(ctx)
		if !ok {
			due = time.Now()
		}
		return m.call(ctx, task, due)
	})), nil
}
