package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Limits that have no line of numbers.
var unfit = map[string]reserve.Limit{
	"quota":      reserve.Quota(100, reserve.CalendarDay),
	"rolling":    reserve.Rolling(10, time.Second),
	"warming up": reserve.PerSecond(10).WarmUp(time.Second),
}

func TestNewRefusesLimitersThatAreNotPaced(t *testing.T) {
	for kind, limit := range unfit {
		w, err := worker.New(unasked(t, limit), worker.Config{})
		require.Nil(t, w)
		require.ErrorIs(t, err, worker.ErrInvalid)
		require.ErrorContains(t, err, `invalid limiter: "api" is of kind `+kind)
		require.ErrorContains(t, err, "a paced limit only: use one, such as reserve.PerSecond(10)")
	}
}

// A task for which the program chooses a limiter that can not serve it is not spent for
// that: it waits in asynq, without a retry, and runs once the program is mended. In its
// last attempt it waits in its worker.
func TestTasksOutliveALimiterThatIsNotPaced(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Mini(t), reserve.PerSecond(20))
	wrong := s.limit("daily", unfit["quota"])
	choose := func(context.Context, *asynq.Task) (worker.Turn, error) {
		return worker.Turn{Limiter: wrong, Key: "ann"}, nil
	}
	config := s.config(4)
	config.ShutdownTimeout = 100 * time.Millisecond
	config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
		t.Errorf("the user hears of %v", err)
	})
	var log journal
	w, stop := s.serve(config, worker.Config{Turn: choose, Logger: log.logger()}, s.call)
	s.enqueue("goes back", asynq.MaxRetry(1))
	s.enqueue("in its last attempt", asynq.MaxRetry(0))
	s.within(10*time.Second, func() bool { return w.Stats().PutBack >= 2 }, "it goes back again and again")
	var retry []*asynq.TaskInfo
	s.within(10*time.Second, func() bool {
		var err error
		retry, err = s.inspector.ListRetryTasks(s.queue)
		return err == nil && len(retry) == 1
	}, "it waits")
	require.Equal(t, "goes back", string(retry[0].Payload))
	require.Contains(t, retry[0].LastErr, `Turn.Limiter: "daily/ann" is of kind quota`)
	require.Zero(t, retry[0].Retried)
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "limit=daily/ann")
	require.Equal(t, 1, strings.Count(log.String(), "does not fit"), "not for each task")
	require.Zero(t, s.info().Archived)
	require.Empty(t, s.history())

	stop()
	s.serve(s.config(4), worker.Config{}, s.call) // the program is mended
	for _, r := range s.await(2, 10*time.Second) {
		require.Zero(t, r.retried)
	}
	s.empty()
}
