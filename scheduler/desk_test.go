package scheduler_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/scheduler"
)

// desk is what a producer of tasks has, with queues of its own.
type desk struct {
	*testing.T
	*scheduler.Scheduler
	server    *redistest.Server
	redis     *redis.Client
	limiter   *reserve.Limiter
	client    *asynq.Client
	inspector *asynq.Inspector
	queue     string
	scripts   atomic.Int64 // of the limiter, carried out
	replied   func() error // called after each of them; its error is the script's
}

func open(t *testing.T, server *redistest.Server, limit reserve.Limit, config scheduler.Config) *desk {
	t.Helper()
	d := &desk{T: t, server: server, redis: server.Client(t), queue: redistest.Prefix(t)}
	d.limiter = d.newLimiter("api", limit)
	d.client = asynq.NewClientFromRedisClient(d.redis)
	d.inspector = asynq.NewInspectorFromRedisClient(d.redis)
	d.Scheduler = d.newScheduler(d.client, config)
	return d
}

func (d *desk) newLimiter(name string, limit reserve.Limit) *reserve.Limiter {
	d.Helper()
	client := d.server.Client(d)
	client.AddHook(tap(func() error {
		d.scripts.Add(1)
		if d.replied != nil {
			return d.replied()
		}
		return nil
	}))
	limiter, err := reserve.New(client, reserve.Config{Name: name, Prefix: d.queue, Limit: limit})
	require.NoError(d, err)
	d.Cleanup(func() { require.NoError(d, limiter.Close()) })
	return limiter
}

func (d *desk) newScheduler(client *asynq.Client, config scheduler.Config) *scheduler.Scheduler {
	d.Helper()
	s, err := scheduler.New(client, d.limiter, config)
	require.NoError(d, err)
	return s
}

// in adds the test's queue to the options.
func (d *desk) in(options ...asynq.Option) []asynq.Option {
	return append([]asynq.Option{asynq.Queue(d.queue)}, options...)
}

func (d *desk) item(task *asynq.Task, options ...asynq.Option) scheduler.Item {
	return scheduler.Item{Task: task, Options: d.in(options...)}
}

func (d *desk) must(options ...asynq.Option) scheduler.Forecast {
	d.Helper()
	f, err := d.Enqueue(d.Context(), task(0), d.in(options...)...)
	require.NoError(d, err)
	return f
}

func (d *desk) state() reserve.State {
	d.Helper()
	s, err := d.limiter.State(d.Context())
	require.NoError(d, err)
	return s
}

// due is when the turn of a task ID is. It is booked if it was not.
func (d *desk) due(taskID string) time.Time {
	d.Helper()
	joint, err := reserve.All(d.limiter)
	require.NoError(d, err)
	joined := joint.Book(d.Context(), []reserve.Call{{ID: turn.ID(d.queue, taskID, 0)}})
	require.NoError(d, joined[0].Err)
	return joined[0].Due
}

// place is which of the tasks that are booked a turn is of, one for each interval: the
// first one is 1.
func place(at time.Time) int {
	return 1 + int(math.Round(float64(time.Until(at))/float64(interval)))
}

func task(i int) *asynq.Task { return asynq.NewTask("call", fmt.Appendf(nil, "%d", i)) }

// away is an asynq client whose Redis cannot be reached.
func away(t *testing.T) *asynq.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return asynq.NewClientFromRedisClient(client)
}

// tap is told of every script that was carried out, and may turn its reply into an
// error.
type tap func() error

func (f tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && cmd.Name() == "evalsha" {
			err = f()
		}
		return err
	}
}

func (tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
