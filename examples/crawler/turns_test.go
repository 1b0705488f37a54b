package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/worker"
)

// serve runs the tasks of run "r" as a worker process does.
func serve(t *testing.T, client *redis.Client, turns *turns, turn func(context.Context, *asynq.Task) (worker.Need, error), handler asynq.Handler) {
	t.Helper()
	w, err := worker.New(turns.crawl, worker.Config{Need: turn})
	require.NoError(t, err)
	config := asynq.Config{
		Concurrency: handlers, Queues: map[string]int{queueName("r"): 1},
		IsFailure: isFailure, RetryDelayFunc: retryDelay, LogLevel: asynq.FatalLevel,
	}
	require.NoError(t, w.Apply(&config))
	server := asynq.NewServerFromRedisClient(client, config)
	require.NoError(t, server.Start(w.Middleware(handler)))
	t.Cleanup(func() { w.Shutdown(server) })
}

func newTestTurns(t *testing.T, client *redis.Client, qps, perHost float64) *turns {
	t.Helper()
	turns, err := newTurns(client, qps, perHost)
	require.NoError(t, err)
	t.Cleanup(func() { _ = turns.close() })
	return turns
}

// simulatedRedis is one in the simulated time of testing/synctest, with connections in
// memory: how long the machine keeps anybody waiting makes no difference there.
func simulatedRedis(t *testing.T) *redis.Client {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		// Nothing may leave the bubble: an address that needs no look-up, and none of
		// what a client asks a real server about.
		Addr:                     "127.0.0.1:6379",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		DisableIdentity:          true,
		MaxRetries:               -1,
		PoolSize:                 1000, // a call that waits for a connection shares timers between bubbles
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Two processes visit one host that asks for a longer pause than the per-host
// limit: the strict provider, which knows only that pause, refuses nothing.
func TestCrawlDelayBeatsTheHostLimit(t *testing.T) {
	synctest.Test(t, crawlDelayBeatsTheHostLimit)
}

func crawlDelayBeatsTheHostLimit(t *testing.T) {
	client := simulatedRedis(t)
	const delay = 80 * time.Millisecond
	judge := provider.New(provider.TokenBucket(1/delay.Seconds(), 1))
	var first, last time.Time
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		process := newTestTurns(t, client, 1000, 500)
		require.NoError(t, process.slow(t.Context(), "h:80", delay))
		for range 6 {
			wg.Go(func() {
				if !assert.NoError(t, process.wait(t.Context(), "h:80")) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ok, _ := judge.Judge(1)
				assert.True(t, ok, "a call came too early")
				last = time.Now()
				if first.IsZero() {
					first = last
				}
			})
		}
	}
	wg.Wait()
	assert.Equal(t, 12, judge.Summary().Requests)
	// Redis's clock counts micros, so each process knows its moments to one of them.
	assert.InDelta(t, 11*delay, last.Sub(first), float64(2*time.Microsecond), "no turn is lost")
}

// A crawl delay below the per-host limit changes nothing, and that of one host nothing for
// the others.
func TestHostLimitBeatsAShortCrawlDelay(t *testing.T) {
	turns := newTestTurns(t, testRedis(t), 100, 4)
	for host, c := range map[string]struct {
		delay time.Duration
		want  float64
	}{"none": {0, 4}, "short": {time.Millisecond, 4}, "long": {2 * time.Second, 0.5}} {
		require.NoError(t, turns.slow(t.Context(), host, c.delay))
		state, err := turns.hosts.For(host).State(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, c.want, state.Rate, 1e-9, host)
	}
}

// The crawl is busy for a second. What a host may have sent meanwhile is not made up for
// afterwards: its visits come at the pace of its limit, and all of them come.
func TestVisitsOfAHostKeepItsPace(t *testing.T) {
	synctest.Test(t, visitsOfAHostKeepItsPace)
}

func visitsOfAHostKeepItsPace(t *testing.T) {
	client := simulatedRedis(t)
	const visits, interval = 12, 50 * time.Millisecond
	process := newTestTurns(t, client, 100, 1/interval.Seconds())
	for i := range 100 { // a second of the crawl's turns
		go func() { assert.NoError(t, process.wait(t.Context(), fmt.Sprint("other ", i))) }()
	}
	time.Sleep(10 * time.Millisecond)
	frontier := newFrontier(client, "r", nil)
	for i := range visits {
		_, err := frontier.add(t.Context(), target{URL: fmt.Sprintf("http://h/%d", i)})
		require.NoError(t, err)
	}
	began := time.Now()
	came := make(chan time.Time, visits)
	judge := provider.New(provider.TokenBucket(1/interval.Seconds(), hostBurst))
	serve(t, client, process, func(context.Context, *asynq.Task) (worker.Need, error) {
		limits, err := process.of("h")
		return worker.Need{Limits: limits}, err
	}, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		ok, _ := judge.Judge(1)
		assert.True(t, ok, "the visits of the host are too close together")
		came <- time.Now()
		return nil
	}))
	assert.Greater(t, (<-came).Sub(began), 500*time.Millisecond, "the crawl was not busy")
	for range visits - 1 {
		<-came
	}
}

func TestCancelledWaitEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTestTurns(t, simulatedRedis(t), 100, 100)
		require.NoError(t, turns.slow(t.Context(), "h", 5*time.Second))
		require.NoError(t, turns.wait(t.Context(), "h"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		began := time.Now()
		assert.ErrorIs(t, turns.wait(ctx, "h"), context.Canceled)
		assert.Equal(t, 50*time.Millisecond, time.Since(began))
	})
}

// A host whose turn is far away holds up nobody: its visits go back until then,
// unfailed, and those of another host go on.
func TestFarTurnsSendTheTaskBack(t *testing.T) {
	base, host := newTestSite(t)
	v := newTestVisitor(t, host)
	require.NoError(t, v.turns.slow(t.Context(), "slow", time.Hour))
	require.NoError(t, v.turns.wait(t.Context(), "slow"))
	limits, err := v.turns.of("slow")
	require.NoError(t, err)
	for _, address := range []string{"http://slow/1", "http://slow/2", base + "/untyped", base + "/secret"} {
		_, err := v.frontier.add(t.Context(), target{URL: address})
		require.NoError(t, err)
	}
	serve(t, v.client, v.turns, func(_ context.Context, task *asynq.Task) (worker.Need, error) {
		to, _, err := targetOf(task)
		if err == nil && strings.HasPrefix(to.URL, "http://slow/") {
			return worker.Need{Limits: limits}, nil
		}
		return v.turn(t.Context(), task)
	}, v)
	reached := assert.Eventually(t, func() bool {
		n, err := countBacklog(v.inspector, "r")
		return err == nil && n == backlog{waiting: 2, visited: 2}
	}, 20*time.Second, 5*time.Millisecond)
	back, err := v.inspector.ListRetryTasks(queueName("r"))
	require.NoError(t, err)
	if !reached {
		n, err := countBacklog(v.inspector, "r")
		t.Logf("%+v, %v", n, err)
		for _, task := range back {
			t.Logf("%s is retried at %v after %q", task.Payload, task.NextProcessAt, task.LastErr)
		}
		t.FailNow()
	}
	require.Len(t, back, 2)
	for _, task := range back {
		assert.Zero(t, task.Retried, "an attempt was counted")
		assert.Greater(t, time.Until(task.NextProcessAt), 50*time.Minute)
	}
}
