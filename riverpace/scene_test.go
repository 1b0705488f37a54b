package riverpace_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/riverpace"
)

const (
	rate  = 100 // calls per second
	burst = 5

	latency = 20 * time.Millisecond // of the API

	// liveness is the time within which everything that has to happen must have happened.
	liveness = 3 * time.Minute
)

var quiet = slog.New(slog.DiscardHandler)

// callArgs is a job that calls the API.
type callArgs struct {
	Number int `json:"number"`
}

func (callArgs) Kind() string { return "call" }

// scene is a database of jobs and the API that they call.
type scene struct {
	*testing.T
	job  clientJob
	pool *pgxpool.Pool

	mu       sync.Mutex
	arrivals []time.Time
	calls    map[int]int // of each job
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, calls: map[int]int{}}
	var at string
	at, s.pool = database(t)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		number, _ := strconv.Atoi(r.FormValue("job"))
		s.mu.Lock()
		s.arrivals = append(s.arrivals, time.Now())
		s.calls[number]++
		s.mu.Unlock()
		time.Sleep(latency)
	}))
	t.Cleanup(api.Close)
	s.job = clientJob{
		Postgres: at, Redis: redistest.New(t).URL(), Prefix: redistest.Prefix(t), API: api.URL, Turns: t.TempDir(), Workers: 250,
	}
	return s
}

// insert adds n jobs.
func (s *scene) insert(n int) {
	s.Helper()
	client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{Logger: quiet})
	require.NoError(s, err)
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = callArgs{Number: i}
	}
	_, err = client.InsertManyFast(s.Context(), jobs)
	require.NoError(s, err)
}

// called returns how many jobs have called the API.
func (s *scene) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// states counts the jobs by state and attempt.
func (s *scene) states() map[string]int {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), "SELECT state || ' ' || attempt, count(*) FROM river_job GROUP BY 1")
	require.NoError(s, err)
	states := map[string]int{}
	var state string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error { states[state] = n; return nil })
	require.NoError(s, err)
	return states
}

// done waits until all n jobs are completed.
func (s *scene) done(n int) {
	s.Helper()
	s.until("all jobs are done", func() bool {
		states := s.states()
		return states["completed 1"]+states["completed 2"] == n
	})
}

func (s *scene) until(what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(liveness); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(s, what, "jobs: %v, called: %d", s.states(), s.called())
		}
	}
}

// onceEach expects that n jobs have called the API once each, in their first attempt.
func (s *scene) onceEach(n int) {
	s.Helper()
	require.Equal(s, map[string]int{"completed 1": n}, s.states())
	s.mu.Lock()
	defer s.mu.Unlock()
	called, arrived := len(s.calls), len(s.arrivals) // Len would print them all
	require.Equal(s, n, called)
	require.Equal(s, n, arrived, "none is called twice")
}

// judge expects that turns keep the limit. It logs how much of the limit was used, and how many calls APIs
// would have refused because of their bursts.
func (s *scene) judge(turns []ledger.Turn) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(s, ledger.Limit{Rate: rate, Burst: burst}.Faults(turns))
	refused := map[int]int{}
	var judged provider.Summary
	for _, bucket := range []int{burst + 1, 10, 20, 50} {
		api := provider.New(provider.TokenBucket(rate, bucket))
		for _, at := range s.arrivals {
			api.JudgeAt(at, 1)
		}
		judged = api.Summary()
		refused[bucket] = judged.Refused
	}
	var snoozes float64
	err := s.pool.QueryRow(s.Context(), "SELECT coalesce(avg(coalesce((metadata->>'snoozes')::int, 0)), 0) FROM river_job").Scan(&snoozes)
	require.NoError(s, err)
	s.Logf("MEASURE calls %d, used %.3f, refused by burst %v, snoozes per job %.2f", judged.Requests, judged.Utilization(rate, burst), refused, snoozes)
}

// clientJob is the task of a River client, as JSON if the client is a process of its own.
type clientJob struct {
	Postgres, Redis, Prefix, API, Turns string
	ID                                  string
	Workers                             int
	Poll, Cooldown, Timeout, Rescue     time.Duration
}

// start starts a client whose jobs call the API, and returns a function that stops it at once.
func (j clientJob) start(ctx context.Context) (stop func() error, err error) {
	options, err := redis.ParseURL(j.Redis)
	if err != nil {
		return nil, err
	}
	connection := redis.NewClient(options)
	limiter, err := reserve.New(connection, reserve.Config{Name: "api", Prefix: j.Prefix, Limit: reserve.PerSecond(rate).Burst(burst)})
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, j.Postgres+" application_name="+j.ID)
	if err != nil {
		return nil, err
	}
	calls := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[callArgs]) error {
		// If the call of a job ends with the client, River works the job again, in the same attempt.
		ctx = context.WithoutCancel(ctx)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?job=%d", j.API, job.Args.Number), nil)
		if err != nil {
			return err
		}
		answer, err := calls.Do(request)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}))
	config := &river.Config{
		ID: j.ID, Logger: quiet, Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: j.Workers}},
		FetchPollInterval: j.Poll, FetchCooldown: j.Cooldown, JobTimeout: j.Timeout, RescueStuckJobsAfter: j.Rescue,
	}
	paced, err := riverpace.New(limiter, riverpace.Config{})
	if err != nil {
		return nil, err
	}
	if err := paced.Apply(config); err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return nil, err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return func() error {
		defer pool.Close()
		defer func() { _ = connection.Close() }()
		defer func() { _ = limiter.Close() }()
		defer calls.CloseIdleConnections()
		return client.StopAndCancel(context.WithoutCancel(ctx))
	}, nil
}

// serve starts clients in this process, until the test ends.
func (s *scene) serve(clients int) {
	s.Helper()
	for range clients {
		stop, err := s.job.start(s.Context())
		require.NoError(s, err)
		s.Cleanup(func() { require.NoError(s, stop()) })
	}
}

// turns returns the turns that this process granted.
func (s *scene) turns() []ledger.Turn { return book.Turns(s.job.Prefix) }
