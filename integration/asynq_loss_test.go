package integration

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Processes of an asynq fleet are killed and replaced. No turn is granted twice, and all tasks run,
// except the tasks that killed processes had taken. asynq recovers these a minute after their last
// heartbeat, when a server starts. With FLEETPACE_SOAK, the test waits for that, and kills more
// processes.
func TestAsynqFleetIsKilled(t *testing.T) {
	long(t, "takes 5 s, and 90 s where FLEETPACE_SOAK is set")
	t.Parallel()
	const rate, processes = 200, 4
	tasks, kills, soaks := 600, 6, os.Getenv(soakLength) != ""
	if soaks {
		tasks, kills = 2000, 20
	}
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.enqueue(0, tasks)
	seed := uint64(1)
	if soaks {
		seed = rand.Uint64()
	}
	var fleet []*worker
	for range processes {
		fleet = append(fleet, s.start())
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		time.Sleep(300 * time.Millisecond)
		victim := random.IntN(processes)
		fleet[victim].kill()
		fleet[victim] = s.start()
	}
	for _, w := range fleet {
		w.signal(syscall.SIGTERM)
		w.once.Do(func() { _ = w.cmd.Wait() }) // a process that has just started may not end cleanly
	}
	held := s.info().Active // only killed processes have active tasks now
	s.start()
	s.within(liveness, func() bool {
		info := s.info()
		return info.Pending+info.Retry == 0 && info.Active <= held
	}, "all run but those that the dead have")
	if soaks {
		time.Sleep(61 * time.Second)
		s.start()
		s.within(2*liveness, func() bool { return s.info().Size == 0 }, "all tasks are done")
	}
	done := map[string]bool{}
	for _, c := range s.history() {
		done[c.task] = true
	}
	active, err := s.inspector.ListActiveTasks(s.job.Queues[0], asynq.PageSize(tasks))
	require.NoError(t, err)
	for _, task := range active {
		done[string(task.Payload)] = true
	}
	require.Len(t, done, tasks, "none is lost")
	s.keptLimit()
	s.measure(map[string]any{"seed": seed, "kills": kills, "held_by_the_dead": held})
}

// All workers are gone for a while, in the middle of a backlog. Their tasks keep their places and
// continue without a burst.
func TestAsynqFleetIsAway(t *testing.T) {
	long(t, "takes 8 s")
	t.Parallel()
	const rate, tasks = 100, 400
	away := 3 * time.Second
	if os.Getenv(soakLength) != "" {
		away = 30 * time.Second
	}
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.enqueue(0, tasks)
	var first, second *worker
	s.rush(func() { first, second = s.start(), s.start() })
	s.within(liveness, func() bool { return len(s.history()) >= rate }, "a part runs")
	first.end(syscall.SIGTERM)
	second.end(syscall.SIGTERM)
	before := len(s.history())

	time.Sleep(away)
	require.Len(t, s.history(), before)
	s.rush(func() { s.start(); s.start() })
	s.done(0)
	s.eachOnce(tasks)
	s.measure(map[string]any{"calls_before": before, "away_s": away.Seconds()})
}

// SIGTERM ends a process although many of its tasks sleep. They keep their places, and no retry is
// counted.
func TestAsynqProcessEnds(t *testing.T) {
	long(t, "takes 20 s")
	t.Parallel()
	const rate, tasks, asleep = 10, 200, 20
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.enqueue(0, tasks)
	first := s.start()
	s.within(liveness, func() bool { return s.info().Active >= asleep }, "many sleep")
	took := first.end(syscall.SIGTERM)
	before := len(s.history())
	require.Less(t, before, tasks, "the process does not wait for their turns")
	require.Zero(t, s.info().Active, "asynq has them all back")
	s.start()
	s.done(0)
	s.eachOnce(tasks)
	require.Zero(t, s.info().FailedTotal)
	s.measure(map[string]any{"ended_in_ms": took.Milliseconds(), "calls_before": before})
}
