package integration

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// scene is a backlog of asynq tasks and the API that they call. Its processes
// are started by job.
type scene struct {
	*testing.T
	job       asynqJob
	rate      float64
	provider  *provider.Provider
	client    *asynq.Client
	inspector *asynq.Inspector

	mu    sync.Mutex
	calls []apiCall
}

// apiCall is a call that the API accepted.
type apiCall struct {
	task    string
	retried int
	at      time.Time
}

// newScene makes a scene on one queue. The provider bears 200 ms of jitter, since
// many processes share the machine. answer, when set, is the API's status for a
// call that was accepted.
func newScene(t *testing.T, redisAddresses []string, rate int, answer func(apiCall) int) *scene {
	t.Helper()
	name := redistest.Prefix(t)
	s := &scene{T: t, rate: float64(rate), job: asynqJob{
		Redis: redisAddresses, Queues: []string{name}, Prefix: name, Limit: strconv.Itoa(rate) + "/s",
		Concurrency: 20, RetryDelay: 100 * time.Millisecond,
	}}
	s.provider = provider.New(provider.TokenBucket(s.rate, 1+rate/5))
	server := httptest.NewServer(s.provider.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		retried, _ := strconv.Atoi(r.FormValue("retried"))
		c := apiCall{r.FormValue("task"), retried, time.Now()}
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		if answer != nil {
			w.WriteHeader(answer(c))
		}
	})))
	t.Cleanup(server.Close)
	s.job.API = server.URL
	s.client = asynq.NewClient(asynqRedis(redisAddresses))
	s.inspector = asynq.NewInspector(asynqRedis(redisAddresses))
	t.Cleanup(func() {
		for _, queue := range s.job.Queues {
			_ = s.inspector.DeleteQueue(queue, true) // tasks of a killed process may be left
		}
		_ = s.inspector.Close()
		_ = s.client.Close()
	})
	return s
}

// enqueue adds n tasks, whose payloads count up from `from`, to the queues in
// turn.
func (s *scene) enqueue(from, n int, options ...asynq.Option) {
	s.Helper()
	for i := from; i < from+n; i++ {
		queue := s.job.Queues[i%len(s.job.Queues)]
		_, err := s.client.Enqueue(asynq.NewTask("call", []byte(strconv.Itoa(i))), append(options, asynq.Queue(queue))...)
		require.NoError(s, err)
	}
}

// rushes take turns: a fleet that sees its backlog for the first time takes all
// cores, and those who slept while others did so would come late to their turns. For the
// same reason only those scenes run beside others that mostly wait.
var rushes sync.Mutex

// rush starts a fleet, and returns when all of its backlog stands in line.
func (s *scene) rush(start func()) {
	s.Helper()
	rushes.Lock()
	defer rushes.Unlock()
	began := time.Now()
	start()
	s.within(40*time.Second, func() bool { return s.info().Pending == 0 }, "all stand in line")
	s.Logf("all stand in line after %v", time.Since(began).Round(time.Millisecond))
}

func (s *scene) start() *worker {
	s.Helper()
	return startAsynq(s, s.job)
}

func (s *scene) history() []apiCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// info sums up what asynq says about the queues.
func (s *scene) info() asynq.QueueInfo {
	s.Helper()
	var sum asynq.QueueInfo
	for _, queue := range s.job.Queues {
		info, err := s.inspector.GetQueueInfo(queue)
		require.NoError(s, err)
		sum.Size += info.Size
		sum.Active += info.Active
		sum.Pending += info.Pending
		sum.Retry += info.Retry
		sum.Archived += info.Archived
		sum.ProcessedTotal += info.ProcessedTotal
		sum.FailedTotal += info.FailedTotal
	}
	return sum
}

func (s *scene) within(limit time.Duration, is func() bool, what string) {
	s.Helper()
	require.Eventually(s, is, limit, 20*time.Millisecond, what)
}

// done waits until asynq has none but `archived` tasks left, and expects that the
// API refused nothing.
func (s *scene) done(limit time.Duration, archived int) {
	s.Helper()
	if !s.settle(limit, archived) {
		info := s.info()
		s.Fatalf("after %v and %d calls asynq still has %d tasks: %d active, %d pending, %d in retry, %d archived",
			limit, len(s.history()), info.Size, info.Active, info.Pending, info.Retry, info.Archived)
	}
	require.Equal(s, archived, s.info().Archived)
	require.Zero(s, s.provider.Summary().Refused, "of %d calls", s.provider.Summary().Requests)
}

func (s *scene) settle(limit time.Duration, archived int) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if s.info().Size == archived {
			return true
		}
	}
	return false
}

// eachOnce expects that each of n tasks was called exactly once, and by no retry.
func (s *scene) eachOnce(n int) {
	s.Helper()
	calls := s.history()
	seen := map[string]bool{}
	for _, c := range calls {
		require.False(s, seen[c.task], "task %s was called twice", c.task)
		require.Zero(s, c.retried)
		seen[c.task] = true
	}
	require.Len(s, calls, n)
}

// order is Spearman's rank correlation between the order in which tasks were
// enqueued and that of their calls.
func (s *scene) order() float64 {
	s.Helper()
	calls := s.history()
	var squares float64
	for i, c := range calls {
		at, err := strconv.Atoi(c.task)
		require.NoError(s, err)
		squares += float64((at - i) * (at - i))
	}
	n := float64(len(calls))
	return 1 - 6*squares/(n*(n*n-1))
}
