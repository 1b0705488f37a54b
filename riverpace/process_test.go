package riverpace_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
)

const jobVariable = "FLEETPACE_RIVERPACE_JOB"

// serve runs a River client in a process of its own, until SIGTERM.
func serve(text string) error {
	var j clientJob
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if err := ledger.Keep(j.Turns, "client"); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	stop, err := j.start(ctx)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return stop()
}

// process is a River client that a test has started.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	once sync.Once
}

// start starts a client in a process of its own.
func (s *scene) start(id string) *process {
	s.Helper()
	j := s.job
	j.ID = id
	text, err := json.Marshal(j)
	require.NoError(s, err)
	cmd := exec.Command(os.Args[0])
	// The race detector would sleep for a second before the process ends.
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe() // it closes when the process ends, or when this process does
	require.NoError(s, err)
	require.NoError(s, cmd.Start())
	p := &process{t: s.T, cmd: cmd}
	s.Cleanup(p.kill)
	return p
}

// kill kills the process, if it still runs.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
}

// end stops the process in order, and returns how long that took.
func (p *process) end() time.Duration {
	p.t.Helper()
	began := time.Now()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.once.Do(func() { require.NoError(p.t, p.cmd.Wait()) })
	return time.Since(began)
}

// written returns the turns of all processes.
func (s *scene) written() []ledger.Turn {
	s.Helper()
	turns, err := ledger.Read(s.job.Turns)
	require.NoError(s, err)
	return turns
}

// running returns how many jobs a client has.
func (s *scene) running(id string) (n int) {
	s.Helper()
	err := s.pool.QueryRow(s.Context(), "SELECT count(*) FROM river_job WHERE state = 'running' AND attempted_by[array_upper(attempted_by, 1)] = $1", id).Scan(&n)
	require.NoError(s, err)
	return n
}

// sessions is how many connections of a client PostgreSQL has. It may still run what a killed client has sent.
func (s *scene) sessions(id string) (n int) {
	s.Helper()
	err := s.pool.QueryRow(s.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1", id).Scan(&n)
	require.NoError(s, err)
	return n
}

// leads waits until River has a leader.
func (s *scene) leads(id string) {
	s.Helper()
	s.until(id+" leads", func() bool {
		var leader string
		_ = s.pool.QueryRow(s.Context(), "SELECT leader_id FROM river_leader").Scan(&leader)
		return leader == id
	})
}

// One of two processes, the leader, ends in the middle, while many of its jobs wait. They return to River
// at once and run elsewhere, in their first attempt.
func TestAProcessEnds(t *testing.T) {
	s := newScene(t)
	const jobs = 1_000
	s.insert(jobs)
	first := s.start("first")
	s.leads("first")
	s.start("second")
	s.until("a part is called, and many wait", func() bool { return s.called() >= jobs/4 && s.running("first") >= 20 })
	waited := s.running("first")
	took := first.end()
	require.Zero(t, s.running("first"), "River has them all back")
	t.Logf("MEASURE ended in %v, with %d jobs in its workers", took.Round(time.Millisecond), waited)
	s.start("third")
	s.done(jobs)
	s.onceEach(jobs)
	s.judge(s.written())
}

// The leading client is killed in the middle, and another one is started. River rescues its jobs: none is
// lost, and only jobs that the killed client was working count a second attempt.
func TestAProcessIsKilled(t *testing.T) {
	s := newScene(t)
	const jobs = 1_000
	s.job.Poll, s.job.Cooldown, s.job.Timeout, s.job.Rescue = 200*time.Millisecond, 50*time.Millisecond, time.Second, 10*time.Second
	s.insert(jobs)
	first := s.start("first")
	s.leads("first")
	s.start("second")
	s.until("a part is called, and many wait", func() bool { return s.called() >= jobs/4 && s.running("first") >= 20 })
	first.kill()
	s.until("what it had sent is done", func() bool { return s.sessions("first") == 0 })
	held, killed := s.running("first"), time.Now()
	s.start("third")
	s.done(jobs)
	states := s.states()
	t.Logf("MEASURE all done %v after the kill, with %d jobs in the workers of the dead: %v", time.Since(killed).Round(time.Millisecond), held, states)
	require.Equal(t, jobs, s.called(), "none is lost")
	require.LessOrEqual(t, states["completed 2"], held)
	s.judge(s.written())
}
