package main

import (
	"context"
	"errors"
	"time"

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

// inTime calls send for each job, in their order and not before its time.
func inTime(ctx context.Context, jobs []job, send func(*job) error) error {
	began := time.Now()
	for i := range jobs {
		if left := jobs[i].after - time.Since(began); left > 0 {
			select {
			case <-time.After(left):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := send(&jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

const enqueuers = 16

// enqueuePlain enqueues as fast as asynq's client can, in about the order of the
// jobs.
func enqueuePlain(ctx context.Context, _ setup, client *redis.Client, jobs []job) error {
	queue := asynq.NewClientFromRedisClient(client)
	next := make(chan *job)
	group, ctx := errgroup.WithContext(ctx)
	for range enqueuers {
		group.Go(func() error {
			for j := range next {
				j.enqueued = time.Now()
				if _, err := queue.EnqueueContext(ctx, j.task(), j.options()...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(next)
		return inTime(ctx, jobs, func(j *job) error {
			select {
			case next <- j:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return group.Wait()
}
