package worker_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/turn"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// unasked is a limiter whose Redis is never asked.
func unasked(t *testing.T, limit reserve.Limit) *reserve.Limiter {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	l, err := reserve.New(client, reserve.Config{Name: "api", Limit: limit})
	require.NoError(t, err)
	return l
}

func TestApplySettings(t *testing.T) {
	const poll = turn.PollInterval
	usual := turn.Lead(poll, poll, reserve.Lead)
	for name, test := range map[string]struct {
		limit  reserve.Limit
		worker worker.Config
		config asynq.Config

		concurrency   int
		task, delayed time.Duration
		lead          time.Duration
	}{
		"defaults": {
			concurrency: runtime.NumCPU() + 1_000, task: poll, delayed: poll, lead: usual,
		},
		"own concurrency": {
			config: asynq.Config{Concurrency: 25}, concurrency: 1_025, task: poll, delayed: poll, lead: usual,
		},
		"own intervals": {
			config:      asynq.Config{Concurrency: 1, TaskCheckInterval: time.Second, DelayedTaskCheckInterval: 2 * time.Second},
			concurrency: 1_001, task: time.Second, delayed: 2 * time.Second,
			lead: turn.Lead(2*time.Second, time.Second, reserve.Lead),
		},
		"own room": {
			worker: worker.Config{WaitingRoom: 300}, config: asynq.Config{Concurrency: 5},
			concurrency: 305, task: poll, delayed: poll, lead: usual,
		},
		"a longer lead": {
			worker: worker.Config{Lead: time.Minute}, config: asynq.Config{Concurrency: 5},
			concurrency: 5 + 2*611, task: poll, delayed: poll, lead: time.Minute, // 10/s for 61.1 s
		},
		"a room for a fast limit": {
			limit: reserve.PerSecond(1_000), config: asynq.Config{Concurrency: 5},
			concurrency: 5 + 2*int(math.Ceil(1_000*turn.Patience(usual).Seconds())), task: poll, delayed: poll, lead: usual,
		},
		"the largest room": {
			limit: reserve.PerSecond(1_000_000), config: asynq.Config{Concurrency: 5},
			concurrency: 10_005, task: poll, delayed: poll, lead: usual,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.limit == (reserve.Limit{}) {
				test.limit = reserve.PerSecond(10)
			}
			w, err := worker.New(unasked(t, test.limit), test.worker)
			require.NoError(t, err)
			require.Zero(t, w.Lead(), "before Apply")
			require.NoError(t, w.Apply(&test.config))
			require.Equal(t, test.concurrency, test.config.Concurrency)
			require.Equal(t, test.task, test.config.TaskCheckInterval)
			require.Equal(t, test.delayed, test.config.DelayedTaskCheckInterval)
			require.Equal(t, test.lead, w.Lead())
			require.Equal(t, turn.Patience(test.lead), w.Patience())
			require.Nil(t, test.config.ErrorHandler, "none was set")
		})
	}
}

// What cannot work is refused, with a text that says what to do, and leaves the
// Worker as it was.
func TestApplyRefuses(t *testing.T) {
	w, err := worker.New(unasked(t, reserve.PerSecond(10)), worker.Config{Lead: 5 * time.Second})
	require.NoError(t, err)

	refused := func(config *asynq.Config, text string) {
		t.Helper()
		err := w.Apply(config)
		require.ErrorIs(t, err, worker.ErrInvalid)
		require.ErrorContains(t, err, text)
	}
	refused(nil, "asynq.Config: must not be nil")
	refused(&asynq.Config{DelayedTaskCheckInterval: -time.Second}, "DelayedTaskCheckInterval: must be positive")
	refused(&asynq.Config{TaskCheckInterval: time.Second, DelayedTaskCheckInterval: 5 * time.Second},
		"Config.Lead: 5s is too short: with a DelayedTaskCheckInterval of 5s and a TaskCheckInterval of 1s a task may"+
			" be back in its worker only 6.5s after it was due")
	require.Zero(t, w.Lead())

	config := asynq.Config{Concurrency: 10}
	require.NoError(t, w.Apply(&config), "after correction")
	before := config.Concurrency
	refused(&config, "make one Worker for each")
	require.Equal(t, before, config.Concurrency)
}

func TestNewRefuses(t *testing.T) {
	limiter := unasked(t, reserve.PerSecond(10))
	for text, make := range map[string]func() (*worker.Worker, error){
		"turns: must not be nil":                     func() (*worker.Worker, error) { return worker.New(nil, worker.Config{}) },
		"Config.WaitingRoom: must be at least 1":     func() (*worker.Worker, error) { return worker.New(limiter, worker.Config{WaitingRoom: -1}) },
		"Config.Lead: must be positive, or 0 for th": func() (*worker.Worker, error) { return worker.New(limiter, worker.Config{Lead: -1}) },
	} {
		w, err := make()
		require.Nil(t, w)
		require.ErrorIs(t, err, worker.ErrInvalid)
		require.ErrorContains(t, err, text)
	}
}

// A waiting room that wastes the limit is allowed, and logged.
func TestApplyWarnsOfASmallRoom(t *testing.T) {
	for room, warns := range map[int]bool{100: true, 400: false} {
		var log journal
		w, err := worker.New(unasked(t, reserve.PerSecond(200)), worker.Config{WaitingRoom: room, Logger: log.logger()})
		require.NoError(t, err)
		require.NoError(t, w.Apply(&asynq.Config{Concurrency: 10}))
		if !warns {
			require.Empty(t, log.String())
			continue
		}
		require.Contains(t, log.String(), "the waiting room is too small for one process")
		require.Contains(t, log.String(), "room=100")
		require.Contains(t, log.String(), `processes_needed=4`, "200/s for 1.95 s are 390 tasks")
	}
}

// The user's own functions are still asked about the user's own errors.
func TestApplyKeepsTheUsersFunctions(t *testing.T) {
	busy, broken := errors.New("busy"), errors.New("broken")
	var handled []error
	config := asynq.Config{
		IsFailure:      func(err error) bool { return !errors.Is(err, busy) },
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n) * time.Hour },
		ErrorHandler: asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
			handled = append(handled, err)
		}),
	}
	w, err := worker.New(unasked(t, reserve.PerSecond(10)), worker.Config{})
	require.NoError(t, err)
	require.NoError(t, w.Apply(&config))
	require.False(t, config.IsFailure(busy))
	require.True(t, config.IsFailure(broken))
	require.Equal(t, 3*time.Hour, config.RetryDelayFunc(3, broken, asynq.NewTask("call", nil)))
	config.ErrorHandler.HandleError(t.Context(), asynq.NewTask("call", nil), broken)
	require.Equal(t, []error{broken}, handled)
	require.False(t, worker.IsWaiting(broken))
	require.False(t, worker.IsWaiting(nil))

	plain := asynq.Config{}
	w, err = worker.New(unasked(t, reserve.PerSecond(10)), worker.Config{})
	require.NoError(t, err)
	require.NoError(t, w.Apply(&plain))
	require.True(t, plain.IsFailure(broken))
	require.False(t, plain.IsFailure(nil))
	require.Positive(t, plain.RetryDelayFunc(1, broken, asynq.NewTask("call", nil)))
}

// Without Apply, every failed put-back would count as a failure: nothing runs.
func TestWithoutApply(t *testing.T) {
	w, err := worker.New(unasked(t, reserve.PerSecond(10)), worker.Config{})
	require.NoError(t, err)
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		t.Error("the handler runs")
		return nil
	})
	err = w.Middleware(handler).ProcessTask(t.Context(), asynq.NewTask("call", nil))
	require.ErrorIs(t, err, worker.ErrInvalid)
	require.ErrorContains(t, err, "call Apply on the asynq.Config before the server is made of it")

	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = client.Close() }()
	server := asynq.NewServerFromRedisClient(client, asynq.Config{LogLevel: asynq.FatalLevel})
	err = w.Run(t.Context(), server, handler)
	require.ErrorIs(t, err, worker.ErrInvalid)
	require.ErrorContains(t, err, "call Apply")
}
