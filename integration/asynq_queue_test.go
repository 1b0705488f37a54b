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

// Three in four of the rescheduled tasks are deleted while they wait. The others run.
func TestAsynqTasksAreDeleted(t *testing.T) {
	long(t, "takes 18 s")
	t.Parallel()
	const rate, tasks = 5, 100
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.job.Concurrency, s.job.WaitingRoom = 20, 2*rate // so that the others are rescheduled
	s.enqueue(0, tasks)
	s.rush(func() { s.start() })
	waiting, err := s.inspector.ListRetryTasks(s.job.Queues[0], asynq.PageSize(tasks))
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 0))
	deleted := 0
	for _, i := range random.Perm(len(waiting))[:len(waiting)*3/4] {
		if s.inspector.DeleteTask(s.job.Queues[0], waiting[i].ID) == nil { // an error: it came up meanwhile
			deleted++
		}
	}
	require.Positive(t, deleted)
	s.done(0)
	s.eachOnce(tasks - deleted)
	s.measure(map[string]any{"deleted": deleted})
}

// A queue that is paused for longer than its tasks sleep continues where it stopped. A task ID that
// is in use is refused. So is a second unique task, until the first one has run.
func TestAsynqQueueIsPaused(t *testing.T) {
	long(t, "takes 6 s")
	t.Parallel()
	const rate, tasks = 100, 500
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.job.Concurrency, s.job.WaitingRoom = 20, 2*rate // so that the others are rescheduled
	queue := s.job.Queues[0]
	s.enqueue(0, tasks)
	s.rush(func() { s.start() })
	s.within(liveness, func() bool { return len(s.history()) >= rate/2 }, "some run")

	require.NoError(t, s.inspector.PauseQueue(queue))
	s.within(liveness, func() bool { return s.info().Active == 0 }, "those that slept have run")
	once := asynq.NewTask("call", []byte(strconv.Itoa(tasks)))
	named := asynq.NewTask("call", []byte(strconv.Itoa(tasks+1)))
	_, err := s.client.Enqueue(once, asynq.Queue(queue), asynq.Unique(time.Hour))
	require.NoError(t, err)
	_, err = s.client.Enqueue(named, asynq.Queue(queue), asynq.TaskID("named"))
	require.NoError(t, err)
	_, err = s.client.Enqueue(once, asynq.Queue(queue), asynq.Unique(time.Hour))
	require.ErrorIs(t, err, asynq.ErrDuplicateTask)
	_, err = s.client.Enqueue(named, asynq.Queue(queue), asynq.TaskID("named"))
	require.ErrorIs(t, err, asynq.ErrTaskIDConflict)
	at := len(s.history())
	time.Sleep(time.Second)
	require.Len(t, s.history(), at, "nothing runs in a paused queue")
	require.NoError(t, s.inspector.UnpauseQueue(queue))
	s.done(0)
	s.eachOnce(tasks + 2)
	s.measure(map[string]any{"calls_before": at})

	for _, option := range []asynq.Option{asynq.Unique(time.Hour), asynq.TaskID("named")} {
		_, err = s.client.Enqueue(once, asynq.Queue(queue), option)
		require.NoError(t, err, "free again")
	}
	s.done(0)
	require.Len(t, s.history(), tasks+4)
}
