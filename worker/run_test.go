package worker_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/asynqtest"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Shutdown does not wait for turns: tasks that sleep go back and keep their
// places, and the next server runs them. A handler that works
// may finish.
func TestShutdownWhileTasksSleep(t *testing.T) {
	t.Parallel()
	const tasks = 120
	s := open(t, redistest.New(t), reserve.PerSecond(20))
	config := s.config(4)
	config.ShutdownTimeout = 10 * time.Second
	for i := range tasks {
		s.enqueue(strconv.Itoa(i), asynq.MaxRetry(1))
	}
	working := make(chan struct{}, tasks)
	first, stop := s.serve(config, worker.Config{}, func(ctx context.Context, task *asynq.Task) error {
		err := s.call(ctx, task)
		working <- struct{}{}
		time.Sleep(100 * time.Millisecond)
		return err
	})
	s.within(liveness, func() bool { return first.Stats().Asleep >= 20 }, "tasks sleep")
	<-working
	start := time.Now()
	stop()
	took := time.Since(start)
	before := len(s.history())
	t.Logf("MEASURE shut down in %v after %d runs", took, before)
	require.Zero(t, first.Stats().Asleep)
	require.Zero(t, first.Stats().Working)
	require.Equal(t, tasks-before, s.info().Size, "none is lost")
	require.Zero(t, s.info().Active)

	s.serve(s.config(4), worker.Config{}, s.call)
	runs := s.await(tasks, liveness)
	s.empty()
	s.paced()
	for _, r := range runs {
		require.Zero(t, r.retried)
	}
}

// A worker can be told to end in any order, as often as one likes and at once.
func TestShutdownIsIdempotent(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Mini(t), reserve.PerSecond(20))
	config := s.config(4)
	w, err := worker.New(s.limiter, worker.Config{})
	require.NoError(t, err)
	require.NoError(t, w.Apply(&config))
	server := asynq.NewServer(s.redis(), config)
	stop := s.run(w, server, asynq.HandlerFunc(s.call))
	s.enqueue("one")
	s.await(1, liveness)
	require.ErrorContains(t, w.Run(t.Context(), server, asynq.HandlerFunc(s.call)), "already running")
	s.enqueue("two")
	s.await(2, liveness)

	var all sync.WaitGroup
	for range 4 {
		all.Go(w.Drain)
		all.Go(func() { w.Shutdown(server) })
		all.Go(stop)
	}
	all.Wait()
	w.Drain()
	w.Shutdown(server)
	require.ErrorIs(t, w.Run(t.Context(), server, asynq.HandlerFunc(s.call)), asynq.ErrServerClosed)
	require.ErrorIs(t, w.Run(t.Context(), server, nil), worker.ErrInvalid)
}

// A task in its last attempt cannot go back by itself: asynq takes it back when
// the ShutdownTimeout is over. It is not archived, and runs later.
func TestShutdownInTheLastAttempt(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.New(t), reserve.Every(5*time.Second))
	config := s.config(4)
	config.ShutdownTimeout = 500 * time.Millisecond
	w, stop := s.serve(config, worker.Config{}, s.call)
	s.enqueue("at once", asynq.MaxRetry(0))
	s.await(1, liveness)
	s.enqueue("sleeps", asynq.MaxRetry(0))
	s.within(liveness, func() bool { return w.Stats().Asleep == 1 }, "it sleeps")
	stop()
	require.Len(t, s.history(), 1)
	require.Equal(t, 1, s.info().Pending)

	s.serve(s.config(4), worker.Config{}, s.call)
	runs := s.await(2, liveness)
	require.Zero(t, runs[1].retried)
	s.paced()
	s.empty()
}

// A turn that was given is so near that its task still runs when the worker drains. The
// others go back.
func TestDrainLeavesGivenTurnsToTheirTasks(t *testing.T) {
	t.Parallel()
	const rate, tasks = 20, 100
	s := open(t, redistest.New(t), reserve.PerSecond(rate))
	for i := range tasks {
		s.enqueue(strconv.Itoa(i))
	}
	w, stop := s.serve(s.config(4), worker.Config{}, s.call)
	s.within(liveness, func() bool { return w.Stats().Asleep >= 5 && len(s.history()) >= 20 }, "tasks sleep")
	before := len(s.history())
	w.Drain()
	s.within(liveness, func() bool { return w.Stats().Asleep == 0 }, "nobody sleeps")
	stop()
	ran := len(s.history()) - before
	t.Logf("MEASURE %d ran after Drain", ran)

	s.serve(s.config(4), worker.Config{}, s.call)
	s.await(tasks, liveness)
	s.paced()
	s.empty()
}

// After Drain nothing sleeps or starts, and what comes is put back.
func TestDrain(t *testing.T) {
	simulate(t, func(t *testing.T, f *fleet) {
		f.Allow("api", asynqtest.Bucket(1/1.4, 1))
		limiter := f.limiter(reserve.Every(1400 * time.Millisecond))
		w, stop := f.serve(limiter, worker.Config{}, 4, "api")
		f.enqueue(0, 1)
		f.Await(1, time.Minute)
		f.enqueue(1, 3)
		time.Sleep(200 * time.Millisecond)
		require.EqualValues(t, 1, w.Stats().Asleep)
		require.EqualValues(t, 1, w.Stats().PutBack)
		w.Drain()
		f.enqueue(3, 4)
		time.Sleep(100 * time.Millisecond)
		require.Zero(t, w.Stats().Asleep)
		for until := time.Now().Add(time.Minute); f.Info().Retry < 3; time.Sleep(10 * time.Millisecond) {
			require.True(t, time.Now().Before(until), "all are put back")
		}
		require.Len(t, f.Calls(), 1)
		stop()
		require.Zero(t, f.Info().Archived)

		f.serve(limiter, worker.Config{}, 4, "api")
		f.Await(4, time.Minute)
		f.unharmed()
	})
}
