package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// contender is one way to keep to a limit.
type contender struct {
	name string

	// serve runs in a process of asynq that makes calls. It may change the server's configuration.
	serve func(m *member, config *asynq.Config) (asynq.Handler, error)

	// start starts such a process, and enqueue returns when all tasks are in Redis.
	start   func(s setup) (*child.Process, error)
	enqueue func(ctx context.Context, s setup, client *redis.Client, lines []string) error

	ready func(ctx context.Context) error // what it needs before; nil: nothing
	only  string                          // the scenario that it can do; empty: all
}

var contenders = []contender{
	{name: "fleetpace-worker", serve: servePaced, start: startAsynq, enqueue: enqueueAsynq},
	{name: "asynq-recipe", serve: serveRecipe, start: startAsynq, enqueue: enqueueAsynq},
	{name: "window-requeue", serve: serveWindow, start: startAsynq, enqueue: enqueueAsynq},
	{name: "sleep-in-handler", serve: serveSleeper, start: startAsynq, enqueue: enqueueAsynq},
	{name: "bullmq", start: startBullMQ, enqueue: enqueueBullMQ, ready: installBullMQ, only: "one"},
}

// errRefused is that the API refused the call.
var errRefused = errors.New("the API refused the call (429)")

// The recipe archives a task that is put back more often than maxRetry.
const maxRetry, timeout = 1_000, 30 * time.Minute

func startAsynq(s setup) (*child.Process, error) { return child.Start(MemberRole, s) }

// enqueueAsynq enqueues as fast as asynq's client can, in about the order of the tasks.
func enqueueAsynq(ctx context.Context, _ setup, client *redis.Client, lines []string) error {
	queue := asynq.NewClientFromRedisClient(client)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, line := range lines {
		group.Go(func() error {
			_, err := queue.EnqueueContext(ctx, asynq.NewTask("call", []byte(line)), asynq.MaxRetry(maxRetry), asynq.Timeout(timeout))
			return err
		})
	}
	return group.Wait()
}

// servePaced gives each task its turn: a task needs the limit that its payload names.
func servePaced(m *member, config *asynq.Config) (asynq.Handler, error) {
	limiters := map[string]*reserve.Limiter{}
	for _, l := range m.Limits {
		rate, burst := l.forLimiters()
		limiter, err := reserve.New(m.redis, reserve.Config{Name: l.Name, Limit: reserve.PerSecond(rate).Burst(burst)})
		if err != nil {
			return nil, err
		}
		limiters[l.Name] = limiter
	}
	of := func(_ context.Context, task *asynq.Task) (worker.Need, error) {
		return worker.Need{Limits: limiters[string(task.Payload())]}, nil
	}
	w, err := worker.New(limiters[m.Limits[0].Name], worker.Config{Turn: of})
	if err != nil {
		return nil, err
	}
	if err := w.Apply(config); err != nil {
		return nil, err
	}
	return w.Middleware(asynq.HandlerFunc(m.call)), nil
}
