package reservetest_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
	"github.com/fleetpace/fleetpace/worker"
)

// A fleet of asynq runs in a bubble, with all that a program does: tasks have their turns, and
// both Run and Start and Shutdown end without a goroutine left behind.
func TestAsynq(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		turns := reservetest.RecordTurns(t)
		client := asynq.NewClient(server)
		for range 20 {
			_, err := client.Enqueue(asynq.NewTask("call", nil))
			require.NoError(t, err)
		}
		var done atomic.Int64
		handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { done.Add(1); return nil })
		fleet := func() (*worker.Worker, *asynq.Server) {
			w, err := worker.New(server.Limiter(config(reserve.PerSecond(1))), worker.Config{Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			config := asynq.Config{Concurrency: 5, LogLevel: asynq.FatalLevel}
			require.NoError(t, w.Apply(&config))
			return w, asynq.NewServer(server, config)
		}
		first, server1 := fleet()
		require.NoError(t, server1.Start(first.Middleware(handler)))
		second, server2 := fleet()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.NoError(t, second.Run(ctx, server2, handler))
		first.Shutdown(server1)
		require.NoError(t, client.Close())

		require.EqualValues(t, 20, done.Load())
		require.Len(t, turns(), 20)
		began, ended := turns()[0].At, turns()[19].At
		require.InDelta(t, 19*time.Second, ended.Sub(began), float64(time.Second))
	})
}
