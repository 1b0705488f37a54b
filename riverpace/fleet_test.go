package riverpace_test

import (
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// Two clients find a backlog. The limit is kept, and each job calls the API once, in its first attempt.
func TestABacklog(t *testing.T) {
	s := newScene(t)
	const jobs = 1_000
	s.insert(jobs)
	s.serve(2)
	s.done(jobs)
	s.onceEach(jobs)
	s.judge(s.turns())
}

// All workers are full of waiting jobs, and the next jobs wait in River's queue.
func TestFewWorkers(t *testing.T) {
	s := newScene(t)
	const jobs = 600
	s.job.Workers = rate / 4
	s.insert(jobs)
	s.serve(2)
	s.done(jobs)
	s.onceEach(jobs)
	s.judge(s.turns())
}

// Clients take longer to work through a backlog than until the turns of its first jobs: these jobs come
// back behind the others.
func TestALargeBacklog(t *testing.T) {
	s := newScene(t)
	s.insert(20_000)
	s.serve(2)
	s.until("a part is called", func() bool { return s.called() >= 600 })
	s.judge(s.turns())
}

// Jobs that are cancelled while they wait in their workers make no call, and delay no other job.
func TestWaitingJobsAreCancelled(t *testing.T) {
	s := newScene(t)
	const jobs, cancelled = 300, 50
	s.insert(jobs)
	limiter, err := reserve.New(redistest.New(t).Client(t), reserve.Config{
		Name: "api", Prefix: s.job.Prefix, Limit: reserve.PerSecond(rate).Burst(burst),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = limiter.Close() })
	require.NoError(t, limiter.Pause(t.Context(), time.Minute, "maintenance"))
	s.job.Poll = 2 * time.Minute // so jobs are patient
	s.serve(1)
	s.until("many wait", func() bool { return s.states()["running 1"] == s.job.Workers })

	client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{Logger: quiet})
	require.NoError(t, err)
	for id := range cancelled {
		_, err := client.JobCancel(t.Context(), int64(id+1))
		require.NoError(t, err)
	}
	s.until("they are cancelled", func() bool { return s.states()["cancelled 1"] == cancelled })
	require.NoError(t, limiter.Resume(t.Context()))
	s.until("the others are done", func() bool { return s.states()["completed 1"] == jobs-cancelled })
	require.Equal(t, jobs-cancelled, s.called())
}
