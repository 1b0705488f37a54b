package main

import (
	"context"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/scheduler"
)

// enqueueScheduled lets every task take its number when it is enqueued.
func enqueueScheduled(ctx context.Context, s setup, client *redis.Client, jobs []job) error {
	t, err := newTurns(client, s.Limits)
	if err != nil {
		return err
	}
	// The workers' Lead depends on their polling intervals, so it is asked of a
	// Worker with the same configuration.
	config := asynq.Config{TaskCheckInterval: s.Polls.Task, DelayedTaskCheckInterval: s.Polls.Delayed}
	w, err := newPacer(t, s.Limits, &config)
	if err != nil {
		return err
	}
	paced, err := scheduler.New(asynq.NewClientFromRedisClient(client), t[s.Limits[0].Name],
		scheduler.Config{Turn: t.of, Lead: w.Lead()})
	if err != nil {
		return err
	}
	items := make([]scheduler.Item, len(jobs))
	for i, j := range jobs {
		items[i] = scheduler.Item{Task: j.task(), Options: j.options()}
	}
	_, err = paced.EnqueueAll(ctx, items)
	return err
}
