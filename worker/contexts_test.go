package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/worker"
)

// counted is a context that counts the contexts that were made of it and have not been cancelled.
type counted struct {
	context.Context
	made, open atomic.Int64
}

func (c *counted) Done() <-chan struct{} { return make(chan struct{}) } // none of the standard library

// AfterFunc is what package context calls for each context that is made of this one. Stop is called
// when that context is cancelled.
func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.made.Add(1)
	c.open.Add(1)
	var once atomic.Bool
	return func() bool {
		if once.Swap(true) {
			return false
		}
		c.open.Add(-1)
		return true
	}
}

// A task leaves no context behind, however often it sleeps: the task's own context may last long.
func TestTasksLeaveNoContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reservetest.New(t)
		w, err := worker.New(server.Limiter(reserve.Config{Name: "api", Limit: reserve.PerSecond(2)}), worker.Config{})
		require.NoError(t, err)
		config := asynq.Config{Concurrency: 4}
		require.NoError(t, w.Apply(&config))
		ctx := &counted{Context: context.Background()}
		handler := w.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
		for range 6 {
			require.NoError(t, handler.ProcessTask(ctx, asynq.NewTask("call", nil)))
		}
		time.Sleep(time.Second)
		require.GreaterOrEqual(t, ctx.made.Load(), int64(12))
		require.Zero(t, ctx.open.Load(), "of %d contexts", ctx.made.Load())
	})
}
