package main

import (
	"context"
	"errors"
	"slices"
	"time"

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
	first := slices.IndexFunc(jobs, func(j job) bool { return j.after > 0 })
	if first < 0 {
		first = len(jobs)
	}
	later := make(chan error, 1) // they come while the backlog is still being booked
	go func() {
		later <- inTime(ctx, jobs[first:], func(j *job) error {
			j.enqueued = time.Now()
			_, err := paced.Enqueue(ctx, j.task(), j.options()...)
			return err
		})
	}()
	items := make([]scheduler.Item, first)
	for i := range items {
		jobs[i].enqueued = time.Now()
		items[i] = scheduler.Item{Task: jobs[i].task(), Options: jobs[i].options()}
	}
	_, err = paced.EnqueueAll(ctx, items)
	return errors.Join(err, <-later)
}
