package integration

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// asynq would archive a rescheduled task with MaxRetry(0), or in its last attempt. Such tasks wait
// in their worker behind many others, and run. A task whose Timeout ends before its turn fails, and
// the error says so.
func TestAsynqLastAttempts(t *testing.T) {
	long(t, "takes 8 s")
	t.Parallel()
	const rate, others, only, last = 20, 120, 20, 10
	isLast := func(c apiCall) bool {
		i, _ := strconv.Atoi(c.task)
		return i >= others+only
	}
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, func(c apiCall) int {
		if isLast(c) && c.retried == 0 {
			return http.StatusBadGateway
		}
		return http.StatusOK
	})
	s.job.RetryDelay = 10 * time.Second // until the queue is long
	first := s.start()
	s.enqueue(others+only, last, asynq.MaxRetry(1)) // they fail first
	s.within(liveness, func() bool { return len(s.history()) >= last }, "the first attempts")
	client := redis.NewClient(&redis.Options{Addr: s.job.Redis[0]})
	defer client.Close()
	limiter, err := s.job.limiter(client)
	require.NoError(t, err)
	defer limiter.Close()
	// The pause is longer than the task's Timeout, however fast the machine is.
	require.NoError(t, limiter.Pause(t.Context(), time.Minute, "one is too late"))
	_, err = s.client.Enqueue(asynq.NewTask("call", []byte("too late")),
		asynq.Queue(s.job.Queues[0]), asynq.MaxRetry(0), asynq.Timeout(10*time.Second))
	require.NoError(t, err)
	s.within(liveness, func() bool { return s.info().Archived == 1 }, "it has failed")
	require.NoError(t, limiter.Resume(t.Context()))
	s.rush(func() {
		s.enqueue(0, others)
		s.enqueue(others, only, asynq.MaxRetry(0))
	})
	s.done(1)
	first.end(syscall.SIGTERM)

	archived, err := s.inspector.ListArchivedTasks(s.job.Queues[0])
	require.NoError(t, err)
	require.Len(t, archived, 1)
	require.Equal(t, "too late", string(archived[0].Payload))
	require.Contains(t, archived[0].LastErr, "in its last attempt a task cannot be rescheduled")
	calls := s.history()
	require.Len(t, calls, others+only+2*last)
	require.False(t, slices.ContainsFunc(calls, func(c apiCall) bool { return c.task == "too late" }))
	require.Equal(t, last+1, s.info().FailedTotal)
}

// A task that fails is retried after the user's own delay and waits for another turn. asynq counts
// failures, and nothing else.
func TestAsynqRealRetries(t *testing.T) {
	t.Parallel()
	const rate, tasks = 100, 200
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, func(c apiCall) int {
		if strings.HasSuffix(c.task, "0") && c.retried < 2 {
			return http.StatusBadGateway
		}
		return http.StatusOK
	})
	s.job.Existing = true
	s.enqueue(0, tasks)
	var w *worker
	s.rush(func() { w = s.start() })
	s.done(0)
	w.end(syscall.SIGTERM)
	info := s.info()
	attempts := map[string][]int{}
	for _, c := range s.history() {
		attempts[c.task] = append(attempts[c.task], c.retried)
	}
	require.Len(t, attempts, tasks)
	for task, retried := range attempts {
		if strings.HasSuffix(task, "0") {
			require.Equal(t, []int{0, 1, 2}, retried, task)
		} else {
			require.Equal(t, []int{0}, retried, task)
		}
	}
	require.Equal(t, 2*tasks/10, info.FailedTotal)
	require.Equal(t, tasks+2*tasks/10, info.ProcessedTotal)
}
