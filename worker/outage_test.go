package worker_test

import (
	"context"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// The limiter's Redis stops, and comes back empty. Under the policy fail tasks are
// put back until then; under local they go on, more slowly. None is archived or
// counts a retry, and the provider refuses nothing.
func TestLimiterLosesItsRedis(t *testing.T) {
	t.Parallel()
	for _, policy := range []reserve.Policy{reserve.PolicyFail, reserve.PolicyLocal} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			loseRedis(t, policy)
		})
	}
}

func loseRedis(t *testing.T, policy reserve.Policy) {
	const tasks, rate = 100, 20
	lines := redistest.Local(t, "--appendonly", "no") // the test's own
	s := open(t, redistest.New(t), reserve.PerSecond(rate))
	client := redis.NewClient(&redis.Options{Addr: lines.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	var err error
	s.limiter, err = reserve.New(client, reserve.Config{
		Name: "api", Prefix: s.queue, Limit: reserve.PerSecond(rate),
		Outage: reserve.Outage{Policy: policy},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.limiter.Close() })
	config := s.config(4)
	config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
		t.Errorf("the user hears of %v", err)
	})
	w, _ := s.serve(config, worker.Config{WaitingRoom: 2 * rate}, s.call) // too small to wait there for long
	for i := range tasks {
		retries := 5
		if i%10 == 0 {
			retries = 0 // cannot be put back
		}
		s.enqueue(strconv.Itoa(i), asynq.MaxRetry(retries))
	}
	s.within(liveness, func() bool { return len(s.history()) >= 10 }, "some run")
	s.within(liveness, func() bool { return w.Stats().PutBack > 0 }, "some are put back")

	_ = client.ShutdownNoSave(t.Context()).Err() // the connection ends without a reply
	require.Eventually(t, func() bool { return client.Ping(t.Context()).Err() != nil },
		liveness, 5*time.Millisecond, "Redis is gone")
	still := len(s.history())
	if policy == reserve.PolicyLocal {
		s.kept.Share = 0.9
		s.within(liveness, func() bool { return len(s.history()) >= still+rate }, "tasks go on")
	} else {
		s.areAskedAgain(w, tasks)
	}
	host, port, err := net.SplitHostPort(lines.Addr())
	require.NoError(t, err)
	process := exec.Command("redis-server", "--bind", host, "--port", port, "--dir", t.TempDir(), "--save", "", "--appendonly", "no")
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	for _, r := range s.await(tasks, liveness) {
		require.Zero(t, r.retried)
	}
	s.empty()
	s.paced()
	require.Zero(t, s.info().Archived)
}

// areAskedAgain waits until tasks are put back again and again, and checks that
// none of them runs.
func (s *shop) areAskedAgain(w *worker.Worker, tasks int) {
	s.within(liveness, func() bool {
		waits, err := s.inspector.ListRetryTasks(s.queue, asynq.PageSize(tasks))
		return err == nil && slices.ContainsFunc(waits, func(task *asynq.TaskInfo) bool {
			return strings.HasPrefix(task.LastErr, "waiting for its turn; asks again at ")
		})
	}, "tasks that ask are put back")
	s.within(liveness, func() bool { return w.Stats().Working == 0 }, "calls that had their turns before are made")
	still, putBack := len(s.history()), w.Stats().PutBack
	s.within(liveness, func() bool { return w.Stats().PutBack >= putBack+10 }, "again and again")
	require.Len(s, s.history(), still, "nothing runs without the limiter")
}
