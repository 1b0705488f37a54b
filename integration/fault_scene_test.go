package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/internal/stall"
)

const (
	faultRate  = 100 // calls per second, of the limit and of the provider
	faultBurst = 10  // of the provider; the limit's is 1, so this is for jitter

	faultWorkers = 4
	faultCallers = 50 // goroutines of each: they wait for 2 s, so that they claim

	undisturbed = 2 * time.Second // under load, before the fault
	afterwards  = 6 * time.Second // under load, after it

	// steady is how late a process that only sleeps may wake for a verdict on a fault
	// to count. The provider bears 90 ms, of which the workers, which do more than
	// sleep, and the way to it need their part.
	steady = 40 * time.Millisecond
)

// faultScene is a fleet under load, the API that it calls, and a fault.
type faultScene struct {
	*testing.T
	name    string
	job     faultJob
	workers []*faultWorker

	mu       sync.Mutex
	provider *provider.Provider
	calls    []faultCall

	start, broken, mended, end time.Time
	stall                      func() time.Duration // the longest of the machine
	failures                   []string             // of the verdict, until it is known to count
}

// faultCall is a call as the API saw it.
type faultCall struct {
	provider.Call
	worker, caller int
}

func newFaultScene(t *testing.T, name string) *faultScene {
	t.Helper()
	s := &faultScene{
		T: t, name: name,
		provider: provider.New(provider.TokenBucket(faultRate, faultBurst)),
		job: faultJob{
			Prefix: redistest.Prefix(t), Limit: strconv.Itoa(faultRate) + "/s", Policy: "local", Calls: faultCallers,
		},
	}
	server := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(server.Close)
	s.job.API = server.URL
	return s
}

// Errorf keeps what an assertion says until the verdict is known to count. What
// ends a scene before its time fails at once.
func (s *faultScene) Errorf(format string, args ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

// FailNow is what a requirement that does not hold calls.
func (s *faultScene) FailNow() {
	s.fail()
	s.T.FailNow()
}

// fail hands over what the assertions said.
func (s *faultScene) fail() {
	s.Helper()
	for _, text := range s.failures {
		s.T.Errorf("%s", text)
	}
}

// excused reports whether the scene fails, and says why that does not count.
func (s *faultScene) excused() bool {
	s.Helper()
	if len(s.failures) == 0 || s.stall() <= steady {
		return false
	}
	s.Logf("NOT JUDGED: the machine kept a sleeping process for %v (%v are fine); what failed: %s",
		s.stall().Round(time.Millisecond), steady, strings.Join(s.failures, ""))
	return true
}

func (s *faultScene) answer(w http.ResponseWriter, r *http.Request) {
	worker, _ := strconv.Atoi(r.FormValue("worker"))
	caller, _ := strconv.Atoi(r.FormValue("caller"))
	s.mu.Lock()
	now := time.Now()
	ok, _ := s.provider.JudgeAt(now, 1)
	s.calls = append(s.calls, faultCall{provider.Call{At: now, N: 1, Refused: !ok}, worker, caller})
	s.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

func (s *faultScene) history() []faultCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// single starts a server of the scene's own and sends the workers to it.
func (s *faultScene) single(args ...string) *redistest.PrivateServer {
	s.Helper()
	server := redistest.Private(s, redistest.PrivateOptions{Args: args})
	s.job.Redis.URL = server.URL()
	return server
}

// load starts the workers, which may each be given a way to Redis of their own,
// and returns when all have been under load for a while.
func (s *faultScene) load(own ...faultRedis) {
	s.Helper()
	for i := range faultWorkers {
		j := s.job
		j.Worker = i
		if own != nil {
			j.Redis = own[i]
		}
		s.workers = append(s.workers, startFaultWorker(s, j))
	}
	require.Eventually(s, func() bool {
		seen := map[int]bool{}
		for _, c := range s.history() {
			seen[c.worker] = true
		}
		return len(seen) == faultWorkers
	}, 20*time.Second, 10*time.Millisecond, "all workers call")
	s.start = time.Now()
	s.stall = stall.Start(s.Context()).Longest
	time.Sleep(undisturbed)
}

// fault runs what breaks something and mends it again.
func (s *faultScene) fault(happens func()) {
	s.Helper()
	s.broken = time.Now()
	happens()
	s.mended = time.Now()
}

// close lets the fleet recover, ends it and judges what was seen.
func (s *faultScene) close(must faultVerdict) {
	s.Helper()
	time.Sleep(afterwards)
	s.end = time.Now()
	reports := s.finishWorkers()
	sum := s.sum(must, reports)
	sum.log(s)
	s.draw(sum)
	s.judge(must, sum)
	if !slices.ContainsFunc(s.workers, func(w *faultWorker) bool { return w.killed }) {
		assert.Len(s, s.history(), reports.Calls, "the API has seen the calls that the workers made")
	}
}

// finishWorkers ends the workers that still run, and sums up their reports.
func (s *faultScene) finishWorkers() faultReport {
	s.Helper()
	reports := make([]faultReport, len(s.workers))
	errs := make([]error, len(s.workers))
	var ending sync.WaitGroup
	for i, w := range s.workers {
		if !w.killed {
			ending.Go(func() { reports[i], errs[i] = w.finish() })
		}
	}
	ending.Wait()
	all := faultReport{Errors: map[string]int{}, Logs: map[string]int{}}
	for i, r := range reports {
		require.NoError(s, errs[i], "worker %d ends", i)
		all.Calls += r.Calls
		all.Lost += r.Lost
		all.Failed += r.Failed
		for text, n := range r.Errors {
			all.Errors[text] += n
		}
		for text, n := range r.Logs {
			all.Logs[text] += n
		}
	}
	return all
}
