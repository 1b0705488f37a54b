package integration

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Twenty processes of an asynq fleet are killed the hard way and replaced. All
// tasks run in the end and the provider refuses nothing. asynq gives up a dead
// worker's tasks a minute after they were last heard of; a server looks for such
// tasks when it starts.
func TestAsynqFleetIsKilled(t *testing.T) {
	long(t, "takes 90 s")
	t.Parallel()
	const rate, tasks, processes, kills = 200, 2_000, 4, 20
	server := redistest.New(t)
	s := newScene(t, []string{server.Addr()}, rate, nil)
	s.enqueue(0, tasks)
	seed := rand.Uint64()
	s.rush(func() {
		var fleet []*worker
		for range processes {
			fleet = append(fleet, s.start())
		}
		random := rand.New(rand.NewPCG(seed, 0))
		for range kills {
			time.Sleep(450 * time.Millisecond)
			victim := random.IntN(processes)
			fleet[victim].kill()
			fleet[victim] = s.start()
		}
	})
	killed := time.Now()
	s.within(40*time.Second, func() bool {
		info := s.info()
		return info.Pending+info.Retry == 0 && time.Since(s.last()) > time.Second
	}, "only tasks of the dead are left")
	alive := s.provider.Summary()
	given, err := server.Client(t).HGet(t.Context(), s.job.Prefix+":{api}:line", "tail").Int()
	require.NoError(t, err)
	left := s.info().Size

	time.Sleep(time.Until(killed.Add(61 * time.Second)))
	s.start()
	s.done(60*time.Second, 0)
	ran := map[string]bool{}
	for _, c := range s.history() {
		ran[c.task] = true
	}
	t.Logf("KILLS (seed %d) %d of %d processes, %d tasks at %d/s: %d calls, %d refused, utilization until all living were done %.3f,"+
		" %d numbers lost of %d, %d tasks held by the dead, all done %v after the last kill",
		seed, kills, processes, tasks, rate, s.provider.Summary().Requests, s.provider.Summary().Refused,
		alive.Utilization(rate, 1), given-alive.Requests, given, left, s.last().Sub(killed).Round(time.Second))
	require.Len(t, ran, tasks, "every task ran")
}

// last is when the API was called last.
func (s *scene) last() time.Time { return s.provider.Summary().Last }

// All workers are gone for 30 s in the middle of a backlog. The line waits for
// them: they go on in order, at the limit's rate, without a burst.
func TestAsynqFleetIsAway(t *testing.T) {
	long(t, "takes 50 s")
	t.Parallel()
	const rate, tasks = 100, 1_500
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.enqueue(0, tasks)
	var first, second *worker
	s.rush(func() { first, second = s.start(), s.start() })
	s.within(20*time.Second, func() bool { return len(s.history()) >= 3*rate }, "a part runs")
	first.end(syscall.SIGTERM)
	second.end(syscall.SIGTERM)
	before, gone := len(s.history()), time.Now()
	require.Less(t, before, tasks/2)

	time.Sleep(30 * time.Second)
	require.Len(t, s.history(), before)
	s.rush(func() { s.start(); s.start() })
	s.done(60*time.Second, 0)
	calls := s.history()
	back := calls[before].at
	after := float64(len(calls)-before-1) / calls[len(calls)-1].at.Sub(back).Seconds()
	t.Logf("AWAY for %v after %d of %d tasks at %d/s: order %.4f, %d refused, worst 1 s window %d, %.1f/s after their return",
		back.Sub(gone).Round(time.Second), before, tasks, rate, s.order(), s.provider.Summary().Refused,
		s.provider.WorstWindow(time.Second), after)
	s.eachOnce(tasks)
	require.GreaterOrEqual(t, s.order(), 0.99)
	// The second's own turns, and what jitter may do as in the provider.
	require.LessOrEqual(t, s.provider.WorstWindow(time.Second), rate+rate/5+1)
	require.Greater(t, after, 0.95*rate)
}

// SIGTERM ends a process within a second though a hundred of its tasks sleep.
// They keep their places, and no retry is counted.
func TestAsynqProcessEnds(t *testing.T) {
	long(t, "takes 20 s")
	const rate, tasks, asleep = 60, 900, 100
	s := newScene(t, []string{redistest.New(t).Addr()}, rate, nil)
	s.enqueue(0, tasks)
	var first *worker
	s.rush(func() { first = s.start() })
	var active int
	s.within(20*time.Second, func() bool {
		info := s.info()
		active = info.Active
		return active >= asleep && info.Pending == 0 && len(s.history()) >= 20
	}, "a hundred sleep, and all others have gone back")
	took := first.end(syscall.SIGTERM)
	before := len(s.history())
	require.Zero(t, s.info().Active, "asynq has them all back")
	s.start()
	s.done(40*time.Second, 0)
	t.Logf("SIGTERM with %d tasks in the process: it ended in %v; order of the %d tasks %.4f, %d before, %d refused",
		active, took.Round(time.Millisecond), tasks, s.order(), before, s.provider.Summary().Refused)
	s.eachOnce(tasks)
	require.Less(t, took, time.Second)
	require.GreaterOrEqual(t, s.order(), 0.99)
	require.Zero(t, s.info().FailedTotal)
}
