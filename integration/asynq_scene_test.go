package integration

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// scene is a backlog of asynq tasks and the API that they call. job starts its processes.
type scene struct {
	*testing.T
	job       asynqJob
	limit     ledger.Limit
	ledger    string // a directory
	client    *asynq.Client
	inspector *asynq.Inspector
	started   int // processes

	mu    sync.Mutex
	calls []apiCall
}

// apiCall is a call, as the API saw it.
type apiCall struct {
	task    string
	retried int
	at      time.Time
}

// newScene makes a scene with one queue. answer, if it is set, returns the API's status for a call.
func newScene(t *testing.T, redisAddresses []string, rate int, answer func(apiCall) int) *scene {
	t.Helper()
	name := redistest.Prefix(t)
	book := t.TempDir()
	s := &scene{T: t, limit: ledger.Limit{Rate: float64(rate), Burst: 1}, ledger: book, job: asynqJob{
		Redis: redisAddresses, Queues: []string{name}, Prefix: name, Limit: strconv.Itoa(rate) + "/s",
		// More handlers than tasks that run at once, so no turn expires because all are busy.
		Concurrency: 500, RetryDelay: 100 * time.Millisecond, Turns: book,
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		retried, _ := strconv.Atoi(r.FormValue("retried"))
		c := apiCall{r.FormValue("task"), retried, time.Now()}
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		if answer != nil {
			w.WriteHeader(answer(c))
		}
	}))
	t.Cleanup(server.Close)
	s.job.API = server.URL
	s.client = asynq.NewClient(asynqRedis(redisAddresses))
	s.inspector = asynq.NewInspector(asynqRedis(redisAddresses))
	t.Cleanup(func() {
		for _, queue := range s.job.Queues {
			_ = s.inspector.DeleteQueue(queue, true) // a killed process may have left tasks
		}
		_ = s.inspector.Close()
		_ = s.client.Close()
	})
	return s
}

// enqueue adds n tasks to the queues in turn. Their payloads count up from `from`.
func (s *scene) enqueue(from, n int, options ...asynq.Option) {
	s.Helper()
	for i := from; i < from+n; i++ {
		queue := s.job.Queues[i%len(s.job.Queues)]
		_, err := s.client.Enqueue(asynq.NewTask("call", []byte(strconv.Itoa(i))), append(options, asynq.Queue(queue))...)
		require.NoError(s, err)
	}
}

// rush starts a fleet. It returns when all of it runs, and all of its backlog waits.
func (s *scene) rush(start func()) {
	s.Helper()
	before, started := s.servers(), s.started
	start()
	s.within(liveness, func() bool {
		came := s.servers()
		maps.DeleteFunc(came, func(id string, _ bool) bool { return before[id] })
		return len(came) == s.started-started
	}, "all processes have started")
	s.within(liveness, func() bool { return s.info().Pending == 0 }, "all wait their turns")
}

// servers are the IDs of the processes that asynq knows. They handle signals by then.
func (s *scene) servers() map[string]bool {
	s.Helper()
	servers, err := s.inspector.Servers()
	require.NoError(s, err)
	ids := map[string]bool{}
	for _, server := range servers {
		if _, ok := server.Queues[s.job.Queues[0]]; ok {
			ids[server.ID] = true
		}
	}
	return ids
}

func (s *scene) start() *worker {
	s.Helper()
	s.started++
	return startAsynq(s, s.job)
}

func (s *scene) history() []apiCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// info sums up asynq's figures of the queues.
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
	if !assert.Eventually(s, is, limit, 20*time.Millisecond, what) {
		var calls []string
		for i, c := range s.history() {
			if i%20 == 0 {
				calls = append(calls, c.at.Format("05.000"))
			}
		}
		require.FailNow(s, what, "queues: %+v, calls: %d, each 20th at %v", s.info(), len(s.history()), calls)
	}
}

// done waits until asynq has only `archived` tasks left, and judges the turns.
func (s *scene) done(archived int) {
	s.Helper()
	s.within(liveness, func() bool { return s.info().Size == archived }, "all tasks are done")
	require.Equal(s, archived, s.info().Archived)
	s.keptLimit()
}

// keptLimit judges the turns so far.
func (s *scene) keptLimit() {
	s.Helper()
	calls := len(s.history())
	turns := turnsIn(s, s.ledger)
	require.GreaterOrEqual(s, len(turns), calls, "each call had its turn")
	keep(s, s.limit, turns)
}

// measure logs how the calls arrived.
func (s *scene) measure(figures map[string]any) {
	s.Helper()
	calls := s.history()
	first, last := calls[0].at, calls[len(calls)-1].at
	turns := turnsIn(s, s.ledger)
	figures["calls"], figures["turns"], figures["rate"] = len(calls), len(turns), s.limit.Rate
	figures["refused_as_given"], figures["order"] = s.limit.RefusedAsGiven(turns), s.order()
	figures["utilization"] = round(float64(len(calls)-1) / last.Sub(first).Seconds() / s.limit.Rate)
	measure(s.T, s.Name(), figures)
}

// eachOnce expects that each of n tasks was called exactly once, and not in a retry.
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

// order is Spearman's rank correlation between the order in which tasks were enqueued and the order
// of their calls.
func (s *scene) order() float64 {
	s.Helper()
	calls := s.history()
	var squares float64
	for i, c := range calls {
		at, _ := strconv.Atoi(c.task)
		squares += float64((at - i) * (at - i))
	}
	n := float64(len(calls))
	return 1 - 6*squares/(n*(n*n-1))
}
