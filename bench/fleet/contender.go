package main

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// contender is one way to keep to a limit.
type contender struct {
	name string

	// serve runs in a server's process. It may change the server's
	// configuration, and returns what the server is to run.
	serve func(m *member, config *asynq.Config) (asynq.Handler, error)

	// enqueue runs in the parent and returns when all tasks are in Redis.
	enqueue func(ctx context.Context, s setup, client *redis.Client, jobs []job) error
}

var contenders = []contender{
	{"fleetpace-worker", servePaced, enqueuePlain},
	{"fleetpace-scheduler", servePaced, enqueueScheduled},
	{"asynq-recipe", serveRecipe, enqueuePlain},
	{"sleep-in-handler", serveSleeper, enqueuePlain},
}

func contenderNamed(name string) (contender, bool) {
	for _, c := range contenders {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}

func names() []string {
	var all []string
	for _, c := range contenders {
		all = append(all, c.name)
	}
	return all
}

// errRefused: the API refused the call.
var errRefused = errors.New("the API refused the call (429)")

const enqueuers = 16

// enqueuePlain enqueues as fast as asynq's client can, in about the order of the
// jobs.
func enqueuePlain(ctx context.Context, _ setup, client *redis.Client, jobs []job) error {
	queue := asynq.NewClientFromRedisClient(client)
	next := make(chan job)
	group, ctx := errgroup.WithContext(ctx)
	for range enqueuers {
		group.Go(func() error {
			for j := range next {
				if _, err := queue.EnqueueContext(ctx, j.task(), j.options()...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(next)
		for _, j := range jobs {
			select {
			case next <- j:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return group.Wait()
}
