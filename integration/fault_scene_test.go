package integration

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

const (
	faultRate  = 100 // calls per second of the limit and of the provider
	faultBurst = 10  // the provider's burst; the limit's is 1, so this allows for jitter

	faultWorkers = 4
	faultCallers = 40 // goroutines of each worker: they wait for more than a second, so they have places

	// undisturbed is how long the fleet is under load before the fault. settle is how long
	// after the fault turns may come that were granted before it.
	undisturbed = time.Second
	settle      = ahead

	// liveness is the longest that anything may take.
	liveness = 60 * time.Second
)

// faultSeconds is a variable: for how many seconds to measure the fleet after each fault.
const faultSeconds = "FLEETPACE_FAULT_SECONDS"

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
	ledger                     string // the ledger's directory
	bare                       *bareSleeper
}

// faultCall is a call, as the API saw it.
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
	s.ledger = t.TempDir()
	s.job.Turns = s.ledger
	server := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(server.Close)
	s.job.API = server.URL
	return s
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

// single starts a server for this scene alone and connects the workers to it.
func (s *faultScene) single(args ...string) *redistest.PrivateServer {
	s.Helper()
	server := redistest.Private(s, redistest.PrivateOptions{Args: args})
	s.job.Redis.URL = server.URL()
	return server
}

// load starts the workers, which may each have their own connection to Redis. It returns when all
// have been under load for a while.
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
	s.until("all workers call", func() bool {
		seen := map[int]bool{}
		for _, c := range s.history() {
			seen[c.worker] = true
		}
		return len(seen) == faultWorkers
	})
	s.until("all workers know how many they are", func() bool { return allCounted(turnsIn(s, s.ledger)) })
	s.start = time.Now()
	s.bare = startBareSleeper(s.Context())
	time.Sleep(undisturbed)
}

// allCounted reports whether each worker has had a reply of Redis since the last worker came. A
// reply says how many workers there are, and a worker's share without Redis depends on that.
func allCounted(turns []ledger.Turn) bool {
	first, last := map[string]time.Time{}, map[string]time.Time{}
	for _, turn := range turns {
		if turn.Alone() {
			continue
		}
		if first[turn.Process].IsZero() || turn.Told.Before(first[turn.Process]) {
			first[turn.Process] = turn.Told
		}
		if turn.Told.After(last[turn.Process]) {
			last[turn.Process] = turn.Told
		}
	}
	for _, came := range first {
		for _, heard := range last {
			if heard.Before(came) {
				return false
			}
		}
	}
	return len(first) == faultWorkers
}

// until waits until a condition holds.
func (s *faultScene) until(what string, is func() bool) {
	s.Helper()
	require.Eventually(s, is, liveness, 100*time.Millisecond, what)
}

// untilAlone waits until this many workers grant turns without Redis, a few each.
func (s *faultScene) untilAlone(workers int) {
	s.Helper()
	s.until("workers go by themselves", func() bool {
		turns := map[string]int{}
		for _, turn := range turnsIn(s, s.ledger) {
			if turn.Alone() {
				turns[turn.Process]++
			}
		}
		few := 0
		for _, n := range turns {
			if n >= 5 {
				few++
			}
		}
		return few >= workers
	})
}

// fault runs the function that breaks something and repairs it.
func (s *faultScene) fault(happens func()) {
	s.Helper()
	s.broken = time.Now()
	happens()
	s.mended = time.Now()
}

// close waits until all callers have called again, ends the fleet and judges the calls.
func (s *faultScene) close(must faultVerdict) {
	s.Helper()
	longer := calm + 4*time.Second
	if text := os.Getenv(faultSeconds); text != "" {
		seconds, err := strconv.Atoi(text)
		require.NoError(s, err, "%s", faultSeconds)
		longer = time.Duration(seconds) * time.Second
	}
	time.Sleep(time.Until(s.mended.Add(longer)))
	for idle := time.Now(); s.idle(s.history()) != nil && time.Since(idle) < liveness; time.Sleep(50 * time.Millisecond) {
		continue // the verdict names the callers that have not called
	}
	s.end = time.Now()
	reports := s.finishWorkers()
	turns := turnsIn(s, s.ledger)
	sum := s.sum(reports, turns)
	sum.log(s)
	s.draw(sum)
	s.judge(must, sum, turns)
	if !slices.ContainsFunc(s.workers, func(w *faultWorker) bool { return w.killed }) {
		assert.Len(s, s.history(), reports.Calls, "the API has seen the calls that the workers made")
		// A turn may come just as its caller ends.
		unused := len(turns) - reports.Calls
		assert.True(s, 0 <= unused && unused <= faultWorkers*s.job.Calls, "%d turns, %d calls", len(turns), reports.Calls)
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

// bareSleeper is a goroutine that only sleeps, 5 ms at a time. Its delays are the machine's, and no
// program can avoid them.
type bareSleeper struct {
	mu            sync.Mutex
	longest, late time.Duration
	since         time.Time
}

func startBareSleeper(ctx context.Context) *bareSleeper {
	b := &bareSleeper{since: time.Now()}
	go func() {
		const nap, steady = 5 * time.Millisecond, 20 * time.Millisecond
		for ctx.Err() == nil {
			asleep := time.Now()
			time.Sleep(nap)
			late := time.Since(asleep) - nap
			b.mu.Lock()
			b.longest = max(b.longest, late)
			if late > steady {
				b.late += late
			}
			b.mu.Unlock()
		}
	}()
	return b
}

// suffered returns the longest delay of a wake-up, and the fraction of the time that it lost in
// delays of more than 20 ms.
func (b *bareSleeper) suffered() (longest time.Duration, share float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.longest, b.late.Seconds() / time.Since(b.since).Seconds()
}
