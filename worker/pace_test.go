package worker_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Hundreds sleep, and no more work at once than the user said. (miniredis would be
// too slow for hundreds under the race detector.)
func TestConcurrencyIsKept(t *testing.T) {
	t.Parallel()
	const tasks, handlers = 200, 3
	s := open(t, redistest.New(t), reserve.PerSecond(20))
	for i := range tasks {
		s.enqueue(strconv.Itoa(i), asynq.MaxRetry(0)) // they sleep, however far their turns are
	}
	ready := make(chan struct{})
	var working, most atomic.Int64
	w, _ := s.serve(s.config(handlers), worker.Config{}, func(ctx context.Context, task *asynq.Task) error {
		raise(&most, working.Add(1))
		defer working.Add(-1)
		<-ready
		return s.call(ctx, task)
	})
	s.within(liveness, func() bool { return working.Load() == handlers && w.Stats().Asleep > 100 }, "all handlers work, and a hundred sleep")
	require.EqualValues(t, handlers, w.Stats().Working)
	close(ready)
	s.await(tasks, liveness)
	s.empty()
	s.paced()
	require.EqualValues(t, handlers, most.Load())
	require.Zero(t, w.Stats().Asleep)
	s.within(liveness, func() bool { return w.Stats().Working == 0 }, "slots are free")
}

func raise(most *atomic.Int64, n int64) {
	for {
		m := most.Load()
		if n <= m || most.CompareAndSwap(m, n) {
			return
		}
	}
}

// Handlers that are too slow for the limit let turns lapse. The tasks get later
// ones, the provider is never called too fast, and the log tells.
func TestSlowHandlersLetTurnsLapse(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		const tasks = 80
		s := open(t, server, reserve.PerSecond(100))
		for i := range tasks {
			s.enqueue(strconv.Itoa(i))
		}
		var log journal
		w, _ := s.serve(s.config(2), worker.Config{Logger: log.logger()}, func(ctx context.Context, task *asynq.Task) error {
			err := s.call(ctx, task)
			time.Sleep(60 * time.Millisecond) // 33/s at most
			return err
		})
		start := time.Now()
		s.await(tasks, liveness)
		t.Logf("%d tasks in %v, %d turns lapsed", tasks, time.Since(start), w.Stats().Lapsed)
		s.empty()
		s.paced()
		require.Positive(t, w.Stats().Lapsed)
		require.Contains(t, log.String(), "all handlers are busy")
		require.Contains(t, log.String(), "handlers=2")
	})
}

// A task whose turn lapsed leaves the handler to those whose turns are now, so that
// handlers which are a little too slow for the limit work all the time.
func TestTurnsThatLapseLeaveHandlersToOthers(t *testing.T) {
	t.Parallel()
	const rate, tasks, handlers, takes = 100, 200, 8, 100 * time.Millisecond
	s := open(t, redistest.New(t), reserve.PerSecond(rate))
	var err error
	s.limiter, err = reserve.New(s.server.Client(t), reserve.Config{Name: "api", Prefix: s.queue, Limit: reserve.PerSecond(rate)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.limiter.Close() })
	for i := range tasks {
		s.enqueue(strconv.Itoa(i))
	}
	w, _ := s.serve(s.config(handlers), worker.Config{}, func(ctx context.Context, task *asynq.Task) error {
		err := s.call(ctx, task)
		time.Sleep(takes)
		return err
	})
	runs := s.await(tasks, liveness)
	took := runs[tasks-1].at.Sub(runs[0].at)
	used := float64(tasks) / took.Seconds() / (handlers / takes.Seconds())
	t.Logf("MEASURE %d tasks in %v, %.3f of what the handlers could do, %d turns lapsed", tasks, took, used, w.Stats().Lapsed)
	s.paced()
}

// A Timeout that is shorter than the time for which a task may sleep makes it
// come and go until its turn is near, and it runs.
func TestShortTimeout(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		const tasks = 40
		s := open(t, server, reserve.PerSecond(10).Burst(5))
		for i := range tasks {
			s.enqueue(strconv.Itoa(i), asynq.Timeout(time.Second), asynq.MaxRetry(20))
		}
		var log journal
		config := s.config(10) // so many that no turn lapses for want of one: that would be told first
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 100 * time.Millisecond }
		w, _ := s.serve(config, worker.Config{Logger: log.logger()}, s.call)
		require.Greater(t, w.Patience(), time.Second)
		s.within(liveness, func() bool { return len(s.history()) >= tasks }, "all run") // one whose Timeout ends as it runs comes again
		s.within(liveness, func() bool { return s.info().Size == 0 }, "the queue is empty")
		s.paced()
		require.Contains(t, log.String(), "set a longer asynq.Timeout")
		// A machine that stops the process for longer than the Timeout has tasks fail.
		t.Logf("MEASURE %d tasks were put back %d times, %d failed", tasks, w.Stats().PutBack, s.info().FailedTotal)
	})
}

// A task whose turn comes after its Deadline fails at once where the Inspector
// tells of the Deadline; nobody waits for it.
func TestDeadlineWithInspector(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		s := open(t, server, reserve.PerMinute(2))
		failed := make(chan error, 10)
		config := s.config(4)
		config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { failed <- err })
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
		w, _ := s.serve(config, worker.Config{Inspector: s.inspector}, s.call)
		s.enqueue("runs at once")
		s.await(1, liveness)
		putBack := w.Stats().PutBack // the first may have missed a turn
		s.enqueue("waits for half a minute, in time", asynq.Deadline(time.Now().Add(time.Minute)))
		s.within(liveness, func() bool { return w.Stats().PutBack == putBack+1 }, "it waits")
		before, err := s.limiter.State(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, before.Booked)

		start := time.Now()
		s.enqueue("too late", asynq.Deadline(start.Add(40*time.Second)), asynq.MaxRetry(3))
		err = <-failed
		t.Logf("MEASURE it fails after %v", time.Since(start))
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
		require.ErrorContains(t, err, "but its Timeout or Deadline ends in ")
		require.NotContains(t, err.Error(), "last attempt")
		require.False(t, worker.IsWaiting(err))
		after, err := s.limiter.State(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, after.Booked, "nobody waits for it")
		require.Zero(t, after.Waiting)
		require.Len(t, failed, 0)
	})
}

// Without the Inspector it fails when it comes again; whoever is behind has its
// turn meanwhile.
func TestDeadlineWithoutInspector(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Mini(t), reserve.PerSecond(5))
	failed := make(chan error, 10)
	config := s.config(4)
	config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { failed <- err })
	config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
	for i := range 15 {
		s.enqueue(strconv.Itoa(i))
	}
	s.enqueue("too late", asynq.Deadline(time.Now().Add(2*time.Second)), asynq.MaxRetry(3))
	for i := range 10 {
		s.enqueue(strconv.Itoa(15 + i))
	}
	s.serve(config, worker.Config{}, s.call)
	// asynq itself fails a task that comes after its Deadline.
	require.ErrorIs(t, <-failed, context.DeadlineExceeded)
	runs := s.await(25, liveness)
	s.paced()
	var gap time.Duration
	for i := 1; i < len(runs); i++ {
		gap = max(gap, runs[i].due.Sub(runs[i-1].due))
	}
	t.Logf("MEASURE longest gap between turns %v, where one is lost 400 ms", gap)
}

// In its last attempt a task cannot be put back: where its turn comes too late,
// it fails with a text that says what to do; where it can wait, it does.
func TestLastAttempt(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		s := open(t, server, reserve.Every(8*time.Second))
		failed := make(chan error, 10)
		config := s.config(4)
		config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { failed <- err })
		w, _ := s.serve(config, worker.Config{}, s.call)
		s.enqueue("at once", asynq.MaxRetry(0))
		s.await(1, liveness)
		s.enqueue("waits", asynq.MaxRetry(0))
		s.within(liveness, func() bool { return w.Stats().Asleep == 1 }, "it sleeps, however long")
		s.enqueue("too late", asynq.MaxRetry(0), asynq.Timeout(6*time.Second))
		err := <-failed
		require.ErrorIs(t, err, reserve.ErrWouldMissDeadline)
		require.ErrorContains(t, err, "raise its Timeout or Deadline, or its MaxRetry: in its last attempt a task cannot be rescheduled")
		runs := s.await(2, liveness)
		require.Equal(t, "waits", runs[1].payload)
		require.Zero(t, w.Stats().PutBack)
		require.Empty(t, failed)
		s.within(liveness, func() bool { return s.info().Size == 1 }, "only the late one is kept")
		require.Equal(t, 1, s.info().Archived)
		state, err := s.limiter.State(t.Context())
		require.NoError(t, err)
		require.Zero(t, state.Waiting+state.Booked)
	})
}
