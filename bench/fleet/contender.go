package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fleetpace/fleetpace/bench/internal/child"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
	"github.com/fleetpace/fleetpace/worker"
)

// contender is one way to keep to a limit.
type contender struct {
	name string

	// serve runs in a process that makes calls. It may change the server's configuration.
	serve func(m *member, config *asynq.Config) (asynq.Handler, error)

	// enqueue returns when all tasks are in Redis.
	enqueue func(ctx context.Context, s setup, client *redis.Client, jobs []job) error

	// start starts such a process where it is none of this program; else nil. ready is what it
	// needs before, and cannot what it cannot do.
	start  func(s setup) (*child.Process, error)
	ready  func(ctx context.Context) error
	cannot func(s scenario) bool
}

var contenders = []contender{
	{name: "fleetpace-worker", serve: servePaced, enqueue: enqueuePlain},
	{name: "fleetpace-scheduler", serve: servePaced, enqueue: enqueueScheduled},
	{name: "asynq-recipe", serve: serveRecipe, enqueue: enqueuePlain, cannot: slotted},
	{name: "window-requeue", serve: serveWindow, enqueue: enqueuePlain, cannot: slotted},
	{name: "sleep-in-handler", serve: serveSleeper, enqueue: enqueuePlain, cannot: slotted},
	{name: "bullmq", enqueue: enqueueBullMQ, start: startBullMQ, ready: installBullMQ, cannot: func(s scenario) bool { return s.name != "one" }},
}

func slotted(s scenario) bool { return s.limits[0].Slots > 0 }

func contenderNamed(name string) (c contender, ok bool) {
	for _, c = range contenders {
		if c.name == name {
			return c, true
		}
	}
	return contender{}, false
}

// errRefused is that the API refused the call.
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
		jobs[i].enqueued = time.Now()
		if err := send(&jobs[i]); err != nil {
			return err
		}
	}
	return nil
}

// enqueuePlain enqueues as fast as asynq's client can, in about the order of the jobs.
func enqueuePlain(ctx context.Context, _ setup, client *redis.Client, jobs []job) error {
	queue := asynq.NewClientFromRedisClient(client)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	err := inTime(ctx, jobs, func(j *job) error {
		group.Go(func() error {
			_, err := queue.EnqueueContext(ctx, j.task(), j.options()...)
			return err
		})
		return ctx.Err()
	})
	return errors.Join(group.Wait(), err)
}

// turns are the limiters of a scenario, for workers and the scheduler alike.
type turns map[string]*reserve.Limiter

func newTurns(client *redis.Client, limits []limit) (turns, error) {
	t := turns{}
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

// of is what a task needs: the limit in its payload, and what its headers say.
func (t turns) of(ctx context.Context, task *asynq.Task) (worker.Turn, error) {
	name, tenant := splitLine(string(task.Payload()))
	turn, err := worker.FromHeaders(ctx, task)
	turn.Limits, turn.Key = t[name], tenant
	return turn, err
}

// pacer makes the Worker, and puts it into the server's configuration.
func (t turns) pacer(limits []limit, config *asynq.Config) (*worker.Worker, error) {
	w, err := worker.New(t[limits[0].Name], worker.Config{Turn: t.of})
	if err != nil {
		return nil, err
	}
	return w, w.Apply(config)
}

// servePaced does not use Worker.Run, because entries are counted outside of its middleware.
func servePaced(m *member, config *asynq.Config) (asynq.Handler, error) {
	t, err := newTurns(m.redis, m.Limits)
	if err != nil {
		return nil, err
	}
	w, err := t.pacer(m.Limits, config)
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

// enqueueScheduled gives every task its turn when it is enqueued.
func enqueueScheduled(ctx context.Context, s setup, client *redis.Client, jobs []job) error {
	t, err := newTurns(client, s.Limits)
	if err != nil {
		return err
	}
	// The workers' Lead depends on their polling intervals, so a Worker with the same ones tells it.
	config := asynq.Config{TaskCheckInterval: s.Task, DelayedTaskCheckInterval: s.Delayed}
	w, err := t.pacer(s.Limits, &config)
	if err != nil {
		return err
	}
	paced, err := scheduler.New(asynq.NewClientFromRedisClient(client), t[s.Limits[0].Name], scheduler.Config{Turn: t.of, Lead: w.Lead()})
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
