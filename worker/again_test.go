package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// eager is a configuration with which tasks come again within a few milliseconds,
// so that a turn that is used twice shows at the provider.
func (s *shop) eager() asynq.Config {
	config := s.config(4)
	config.TaskCheckInterval, config.DelayedTaskCheckInterval = 5*time.Millisecond, 5*time.Millisecond
	return config
}

// A task ID that comes again as soon as it has run is a new call each time, also
// while the place of the last one could still be asked for.
func TestSameTaskIDAgain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		const times = 40
		s := open(t, server, reserve.PerSecond(20).Burst(5))
		s.serve(s.eager(), worker.Config{}, s.call)
		for i := range times {
			s.within(liveness, func() bool {
				_, err := s.client.Enqueue(asynq.NewTask("call", nil), asynq.Queue(s.queue), asynq.TaskID("the same"))
				if !errors.Is(err, asynq.ErrTaskIDConflict) {
					require.NoError(t, err)
				}
				return err == nil
			}, "the ID is free")
			s.await(i+1, liveness)
		}
		s.paced()
		s.empty()
	})
}

// A task that comes again without a retry being counted, since the user says
// that its error is no failure, needs a turn each time.
func TestNoFailureComesAgain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		const times = 40
		s := open(t, server, reserve.PerSecond(20).Burst(5))
		notReady := errors.New("the report is not ready yet")
		config := s.eager()
		config.IsFailure = func(err error) bool { return !errors.Is(err, notReady) }
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
		s.serve(config, worker.Config{}, func(ctx context.Context, task *asynq.Task) error {
			if err := s.call(ctx, task); err != nil {
				return err
			}
			if len(s.history()) < times {
				return notReady
			}
			return nil
		})
		s.enqueue("polls a report", asynq.MaxRetry(1))
		runs := s.await(times, liveness)
		s.paced()
		for _, r := range runs {
			require.Zero(t, r.retried)
		}
		s.empty()
	})
}

// A real retry is the user's own: after his delay, with a count, in a new turn.
func TestRealRetry(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		s := open(t, server, reserve.PerSecond(20).Burst(5))
		broken := errors.New("broken")
		config := s.config(4)
		config.RetryDelayFunc = func(n int, err error, _ *asynq.Task) time.Duration {
			if !errors.Is(err, broken) {
				t.Errorf("asked for the delay of %v", err)
			}
			return 0
		}
		s.serve(config, worker.Config{}, func(ctx context.Context, task *asynq.Task) error {
			_ = s.call(ctx, task)
			retried, _ := asynq.GetRetryCount(ctx)
			if retried < 3 {
				return broken
			}
			return nil
		})
		s.enqueue("fails three times")
		runs := s.await(4, liveness)
		for i, r := range runs {
			require.Equal(t, i, r.retried)
		}
		s.within(liveness, func() bool { return s.info().Size == 0 }, "it is done")
		require.Equal(t, 3, s.info().FailedTotal)
		require.Equal(t, 4, s.info().ProcessedTotal)
		s.paced()
	})
}
