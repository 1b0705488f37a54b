package worker_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// Tasks that are put back run in the order of the queue, once each, and asynq
// counts neither a failure nor a retry. Other middleware can tell a put-back, and
// the user's own functions do not hear of it.
func TestPutBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		const tasks, rate = 45, 5
		s := open(t, server, reserve.PerSecond(rate))
		var waiting, others, heard atomic.Int64
		config := s.config(4)
		config.TaskCheckInterval = 10 * time.Millisecond
		config.IsFailure = func(error) bool { heard.Add(1); return true }
		config.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { heard.Add(1); return 0 }
		config.ErrorHandler = asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { heard.Add(1) })
		w, err := worker.New(s.limiter, worker.Config{WaitingRoom: 2 * rate})
		require.NoError(t, err)
		require.NoError(t, w.Apply(&config))
		metrics := func(next asynq.Handler) asynq.Handler {
			return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				err := next.ProcessTask(ctx, task)
				switch {
				case worker.IsWaiting(err):
					waiting.Add(1)
				case err != nil:
					others.Add(1)
				}
				return err
			})
		}
		mux := asynq.NewServeMux()
		mux.Use(metrics, w.Middleware)
		mux.HandleFunc("call", s.call)
		asynqServer := asynq.NewServer(s.redis(), config)
		require.NoError(t, asynqServer.Start(mux))
		t.Cleanup(func() { w.Shutdown(asynqServer) })

		for i := range tasks { // one by one, as calls under way overtake each other
			s.enqueue(strconv.Itoa(i))
			s.within(liveness, func() bool {
				now := w.Stats()
				return len(s.history())+int(now.Asleep+now.PutBack) > i
			}, "it has a place")
		}
		var retry []*asynq.TaskInfo
		s.within(liveness, func() bool {
			retry, err = s.inspector.ListRetryTasks(s.queue)
			require.NoError(t, err)
			return len(retry) > 0
		}, "the far ones are put back")
		require.Contains(t, retry[0].LastErr, "waiting for its turn until ")
		require.Zero(t, retry[0].Retried)

		runs := s.await(tasks, liveness)
		s.empty()
		s.paced()
		require.Positive(t, waiting.Load())
		require.Zero(t, others.Load())
		require.Zero(t, heard.Load(), "a put-back is no error of the user's")
		require.Equal(t, waiting.Load(), w.Stats().PutBack)
		t.Logf("MEASURE %d tasks were put back %d times", tasks, w.Stats().PutBack)
		require.Equal(t, tasks, s.info().ProcessedTotal, "a put-back is not counted")
		for i, r := range runs { // order_test.go judges their order, in simulated time
			require.Zero(t, r.retried)
			require.False(t, r.at.Before(r.due), "run %d is %v early", i, r.due.Sub(r.at))
		}
	})
}

// Each turn is the limiter's: a running task knows when it came.
func TestDue(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Mini(t), reserve.PerSecond(20))
	for i := range 10 {
		s.enqueue(strconv.Itoa(i))
	}
	s.serve(s.config(10), worker.Config{}, s.call)
	runs := s.await(10, liveness)
	s.paced()
	turns := book.Turns(s.queue)
	for _, r := range runs {
		require.False(t, r.at.Before(r.due))
		require.True(t, slices.ContainsFunc(turns, func(turn ledger.Turn) bool {
			return turn.Given.Add(-turn.Late).Sub(r.due).Abs() < time.Millisecond
		}), "there is a turn at %v", r.due)
	}
	_, ok := worker.Due(t.Context())
	require.False(t, ok)
}

// A key has a queue of its own, a second limiter too; both may come with headers
// or from the user's function.
func TestKeysAndLimiters(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		// A task that misses its turn has another, and the next is still far away.
		s := open(t, server, reserve.Every(20*time.Second))
		search := s.limit("search", reserve.Every(20*time.Second))
		send := func(payload string, need worker.Need) {
			s.send(asynq.NewTaskWithHeaders("call", []byte(payload), need.Headers()))
		}
		send("first of all", worker.Need{})
		send("second of all", worker.Need{})
		send("first of ann", worker.Need{Key: "ann"})
		send("second of ann", worker.Need{Key: "ann"})
		send("first of bob", worker.Need{Key: "bob"})
		s.send(asynq.NewTask("search", []byte("first search")))
		s.send(asynq.NewTask("search", []byte("second search")))
		w, _ := s.serve(s.config(10), worker.Config{Need: func(ctx context.Context, task *asynq.Task) (worker.Need, error) {
			if task.Type() == "search" {
				return worker.Need{Limits: search}, nil
			}
			return worker.FromHeaders(ctx, task)
		}}, s.call)

		runs := s.await(4, liveness)
		var ran []string
		for _, r := range runs {
			ran = append(ran, r.payload)
		}
		s.within(liveness, func() bool { now := w.Stats(); return now.PutBack+now.Asleep >= 3 }, "the others wait")
		require.Len(t, s.history(), 4)
		counts := map[string]int{}
		for _, payload := range ran {
			// Which of two is first is up to asynq's goroutines.
			counts[payload[len("first "):][max(0, len(payload)-len("first ")-3):]]++
		}
		require.Equal(t, map[string]int{"all": 1, "ann": 1, "bob": 1, "rch": 1}, counts)
		for _, l := range []*reserve.Limiter{s.limiter, s.limiter.For("ann"), search} {
			s.within(liveness, func() bool { // it may be on its way
				state, err := l.State(t.Context())
				return err == nil && state.Waiting+state.Booked == 1
			}, "one is in the queue of "+l.String())
		}
	})
}

// A task that calls nothing does not wait.
func TestSkip(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Mini(t), reserve.Every(20*time.Second)) // as above
	s.enqueue("takes the first turn")
	w, _ := s.serve(s.config(2), worker.Config{}, func(ctx context.Context, task *asynq.Task) error {
		_, waited := worker.Due(ctx)
		if waited == (string(task.Payload()) == "skips") {
			t.Errorf("%s: waited is %v", task.Payload(), waited)
		}
		return s.call(ctx, task)
	})
	s.await(1, liveness)
	s.enqueue("waits")
	for range 5 {
		s.send(asynq.NewTaskWithHeaders("call", []byte("skips"), worker.Need{Skip: true}.Headers()))
	}
	s.await(6, liveness)
	s.within(liveness, func() bool { return w.Stats().PutBack >= 1 }, "the other waits")
	state, err := s.limiter.State(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, state.Booked)
}

// What a task needs can be wrong in several ways; each fails the task, and says
// what is wrong.
func TestTurnErrors(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Mini(t), reserve.PerSecond(100).Burst(3))
	unpaid := errors.New("the tenant has not paid")
	failed := make(chan error, 10)
	config := s.config(2)
	config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { failed <- err })
	s.serve(config, worker.Config{Need: func(ctx context.Context, task *asynq.Task) (worker.Need, error) {
		switch string(task.Payload()) {
		case "unpaid":
			return worker.Need{}, unpaid
		case "both":
			return worker.Need{Cost: 1, Costs: []int{1}}, nil
		}
		return worker.FromHeaders(ctx, task)
	}}, s.call)

	s.enqueue("unpaid", asynq.MaxRetry(0))
	err := <-failed
	require.ErrorIs(t, err, unpaid)
	require.ErrorContains(t, err, `the turn of a task of type "call"`)

	s.send(asynq.NewTaskWithHeaders("call", nil, map[string]string{"fleetpace-cost": "many"}), asynq.MaxRetry(0))
	err = <-failed
	require.ErrorIs(t, err, reserve.ErrInvalid)
	require.ErrorContains(t, err, `header fleetpace-cost: must be a whole number of at least 1, or several with commas between them, got "many"`)

	s.send(asynq.NewTaskWithHeaders("call", nil, worker.Need{Cost: 4}.Headers()), asynq.MaxRetry(0))
	err = <-failed
	require.ErrorIs(t, err, reserve.ErrExceedsBurst)
	require.ErrorContains(t, err, `which is 3 (100/s burst 3), got 4`)

	s.send(asynq.NewTaskWithHeaders("call", nil, worker.Need{Costs: []int{1, 2}}.Headers()), asynq.MaxRetry(0))
	require.ErrorContains(t, <-failed, "Need.Costs: must be one for each of the 1 limits, got [1 2]")

	s.enqueue("both", asynq.MaxRetry(0))
	require.ErrorContains(t, <-failed, "Need.Cost and Need.Costs: set one of them, got 1 and [1]")

	s.send(asynq.NewTaskWithHeaders("call", nil, worker.Need{Key: strings.Repeat("k", 600)}.Headers()), asynq.MaxRetry(0))
	err = <-failed
	require.ErrorIs(t, err, reserve.ErrInvalid)
	require.ErrorContains(t, err, "512 bytes")

	require.Empty(t, s.history())
	s.within(liveness, func() bool { return s.info().Archived == 6 }, "they are archived")
	state, err := s.limiter.State(t.Context())
	require.NoError(t, err)
	require.Zero(t, state.Waiting+state.Booked)
}

// Tasks cost what they say.
func TestCost(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Mini(t), reserve.PerSecond(100).Burst(20))
	var sum int64
	for i := range 60 {
		cost := 1 + i%20/4*4
		sum += int64(cost)
		s.send(asynq.NewTaskWithHeaders("call", []byte(strconv.Itoa(i)), worker.Need{Cost: cost}.Headers()))
	}
	s.serve(s.config(20), worker.Config{}, s.call)
	s.await(60, liveness)
	s.paced()
	for _, turn := range book.Turns(s.queue) {
		sum -= turn.Cost
	}
	require.LessOrEqual(t, sum, int64(0), "permits")
	s.empty()
}
