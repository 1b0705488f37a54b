package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/worker"
)

// shop is a queue of asynq, a limit, and what the tasks of the queue did.
type shop struct {
	*testing.T
	server    *redistest.Server
	queue     string
	limiter   *reserve.Limiter
	kept      ledger.Limit
	client    *asynq.Client
	inspector *asynq.Inspector

	mu   sync.Mutex
	runs []run
}

// run is one call of a task's handler.
type run struct {
	payload string
	due     time.Time
	at      time.Time
	retried int
}

// liveness is what anything may take that must happen at all.
const liveness = time.Minute

// open makes a shop.
func open(t *testing.T, server *redistest.Server, limit reserve.Limit) *shop {
	t.Helper()
	s := &shop{T: t, server: server, queue: redistest.Prefix(t)}
	s.limiter = s.limit("api", limit)
	s.kept = ledger.Limit{Rate: limit.Rate(), Burst: limit.MaxBurst()}
	s.client = asynq.NewClient(s.redis())
	s.inspector = asynq.NewInspector(s.redis())
	t.Cleanup(func() {
		_ = s.inspector.DeleteQueue(s.queue, true) // not there where nothing was enqueued
		require.NoError(t, s.inspector.Close())
		require.NoError(t, s.client.Close())
	})
	return s
}

func (s *shop) redis() asynq.RedisConnOpt {
	s.Helper()
	options, err := asynq.ParseRedisURI(s.server.URL())
	require.NoError(s, err)
	return options
}

// limit makes one more limiter.
func (s *shop) limit(name string, limit reserve.Limit) *reserve.Limiter {
	s.Helper()
	l, err := reserve.New(s.server.Client(s), reserve.Config{
		Name: name, Prefix: s.queue, Limit: limit,
	})
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, l.Close()) })
	return l
}

// config is asynq's for the shop's queue.
func (s *shop) config(concurrency int) asynq.Config {
	return asynq.Config{
		Concurrency: concurrency, Queues: map[string]int{s.queue: 1}, LogLevel: asynq.FatalLevel,
	}
}

// serve runs a server until stop is called, or the test ends.
func (s *shop) serve(config asynq.Config, workerConfig worker.Config, handler asynq.HandlerFunc) (w *worker.Worker, stop func()) {
	s.Helper()
	if workerConfig.Logger == nil {
		workerConfig.Logger = slog.New(slog.DiscardHandler)
	}
	w, err := worker.New(s.limiter, workerConfig)
	require.NoError(s, err)
	require.NoError(s, w.Apply(&config))
	return w, s.run(w, asynq.NewServer(s.redis(), config), handler)
}

func (s *shop) run(w *worker.Worker, server *asynq.Server, handler asynq.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, server, handler) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(s, <-ended)
	})
	s.Cleanup(stop)
	return stop
}

func (s *shop) enqueue(payload string, options ...asynq.Option) *asynq.TaskInfo {
	s.Helper()
	return s.send(asynq.NewTask("call", []byte(payload)), options...)
}

func (s *shop) send(task *asynq.Task, options ...asynq.Option) *asynq.TaskInfo {
	s.Helper()
	info, err := s.client.Enqueue(task, append([]asynq.Option{asynq.Queue(s.queue)}, options...)...)
	require.NoError(s, err)
	return info
}

// call is a handler that notes its call, and nothing more.
func (s *shop) call(ctx context.Context, task *asynq.Task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	due, _ := worker.Due(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	s.runs = append(s.runs, run{string(task.Payload()), due, time.Now(), retried})
	return nil
}

func (s *shop) history() []run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// await waits until the tasks were called n times in total.
func (s *shop) await(n int, within time.Duration) []run {
	s.Helper()
	s.within(within, func() bool { return len(s.history()) >= n }, "all tasks run")
	runs := s.history()
	require.Len(s, runs, n)
	return runs
}

func (s *shop) within(limit time.Duration, is func() bool, what string) {
	s.Helper()
	require.Eventually(s, is, limit, 5*time.Millisecond, what)
}

// info is what asynq says about the queue.
func (s *shop) info() *asynq.QueueInfo {
	s.Helper()
	info, err := s.inspector.GetQueueInfo(s.queue)
	require.NoError(s, err)
	return info
}

// empty waits until asynq has no task left, and expects that none failed.
func (s *shop) empty() {
	s.Helper()
	s.within(liveness, func() bool { return s.info().Size == 0 }, "the queue is empty")
	require.Zero(s, s.info().FailedTotal)
}

// paced expects that the turns keep the limit, and that each call had one.
func (s *shop) paced() {
	s.Helper()
	turns := book.Turns(s.queue)
	require.Empty(s, s.kept.Faults(turns))
	require.GreaterOrEqual(s, len(turns), len(s.history()))
}

// journal is a log to look into.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }
