package worker_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// A fleet finds a backlog. A task that went back while most of it still stands in
// asynq's queue would come again behind all of it and miss its turn; it stays.
func TestPlacesAreKeptInARush(t *testing.T) {
	t.Parallel()
	const rate, backlog, calls = 50, 800, 250
	s := open(t, redistest.New(t), reserve.PerSecond(rate))
	for i := range backlog {
		s.enqueue(strconv.Itoa(i))
	}
	client := s.server.Client(t)
	client.AddHook(slowScripts(5 * time.Millisecond)) // so it takes over 4 s to hand out the backlog
	w, err := worker.New(s.limiter, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	config := s.config(20)
	require.NoError(t, w.Apply(&config))
	stop := s.run(w, asynq.NewServerFromRedisClient(client, config), asynq.HandlerFunc(s.call))
	s.within(liveness, func() bool { return len(s.history()) >= calls }, "the first run")
	stop()
	runs := s.history()
	far := 0
	for i, r := range runs[:calls] {
		at, err := strconv.Atoi(r.payload)
		require.NoError(t, err)
		if max(at-i, i-at) > rate {
			far++
		}
	}
	t.Logf("MEASURE %d of the first %d tasks more than a second out of place; %d put back", far, calls, w.Stats().PutBack)
	s.paced()
}

// slowScripts is a hook under which scripts take longer by that much.
type slowScripts time.Duration

func (slowScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d slowScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			time.Sleep(time.Duration(d))
		}
		return next(ctx, cmd)
	}
}

func (slowScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
