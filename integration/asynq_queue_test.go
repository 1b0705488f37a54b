package integration

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Tasks that are deleted while they wait cost the fleet at most the interval that
// each of them would have had; the others run.
func TestAsynqTasksAreDeleted(t *testing.T) {
	long(t, "takes 16 s")
	const rate, tasks, deleted = 100, 1_400, 100
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.enqueue(0, tasks)
	s.rush(func() { s.start() })
	s.within(10*time.Second, func() bool { return s.info().Retry >= 2*deleted }, "tasks were put back")
	waiting, err := s.inspector.ListRetryTasks(s.job.Queues[0], asynq.PageSize(tasks))
	require.NoError(t, err)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	gone := 0
	for _, i := range random.Perm(len(waiting)) {
		if gone == deleted {
			break
		}
		if s.inspector.DeleteTask(s.job.Queues[0], waiting[i].ID) == nil { // else it runs just now
			gone++
		}
	}
	require.Equal(t, deleted, gone)
	s.done(30*time.Second, 0)
	s.eachOnce(tasks - deleted)
	summary := s.provider.Summary()
	took := summary.Last.Sub(summary.First)
	lost := took.Seconds()*rate - float64(summary.Requests-1)
	t.Logf("DELETED (seed %d) %d of %d tasks at %d/s: %d refused, %.1f intervals lost", seed, deleted, tasks, rate, summary.Refused, lost)
	require.LessOrEqual(t, lost, float64(deleted)+rate/5, "one interval each, and jitter")
}

// A queue that is paused for longer than its tasks sleep goes on where it was. A
// task ID that is in use is refused, and so is a second unique task, until the
// first has run.
func TestAsynqQueueIsPaused(t *testing.T) {
	long(t, "takes 15 s")
	const rate, tasks = 100, 800
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	queue := s.job.Queues[0]
	s.enqueue(0, tasks)
	s.rush(func() { s.start() })
	s.within(10*time.Second, func() bool { return len(s.history()) >= rate }, "some run")

	require.NoError(t, s.inspector.PauseQueue(queue))
	s.within(10*time.Second, func() bool { return s.info().Active == 0 }, "those that slept have run")
	once := asynq.NewTask("call", []byte(strconv.Itoa(tasks)))
	named := asynq.NewTask("call", []byte(strconv.Itoa(tasks+1)))
	_, err := s.client.Enqueue(once, asynq.Queue(queue), asynq.Unique(time.Minute))
	require.NoError(t, err)
	_, err = s.client.Enqueue(named, asynq.Queue(queue), asynq.TaskID("named"))
	require.NoError(t, err)
	_, err = s.client.Enqueue(once, asynq.Queue(queue), asynq.Unique(time.Minute))
	require.ErrorIs(t, err, asynq.ErrDuplicateTask)
	_, err = s.client.Enqueue(named, asynq.Queue(queue), asynq.TaskID("named"))
	require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
	at := len(s.history())
	time.Sleep(2 * time.Second)
	require.Len(t, s.history(), at, "nothing runs in a paused queue")
	require.NoError(t, s.inspector.UnpauseQueue(queue))
	s.done(30*time.Second, 0)
	s.eachOnce(tasks + 2)
	calls := s.history()
	after := float64(len(calls)-at-1) / calls[len(calls)-1].at.Sub(calls[at].at).Seconds()
	t.Logf("PAUSED after %d of %d calls at %d/s: %d refused, worst 1 s window %d, %.1f/s after it",
		at, len(calls), rate, s.provider.Summary().Refused, s.provider.WorstWindow(time.Second), after)
	require.Greater(t, after, 0.9*rate)

	for _, option := range []asynq.Option{asynq.Unique(time.Minute), asynq.TaskID("named")} {
		_, err = s.client.Enqueue(once, asynq.Queue(queue), option)
		require.NoError(t, err, "free again")
	}
	s.done(10*time.Second, 0)
	require.Len(t, s.history(), tasks+4)
}
