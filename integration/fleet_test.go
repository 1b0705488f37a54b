package integration

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/provider"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// strict starts an API guarded by the strict provider. Its burst is what jitter
// on the way may use; the line itself is evenly spaced.
func strict(t testing.TB, rate float64, burst int) (*provider.Provider, string) {
	p := provider.New(provider.TokenBucket(rate, burst))
	server := httptest.NewServer(p.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	t.Cleanup(server.Close)
	return p, server.URL
}

// Four processes share 200/s for 20 seconds: the provider refuses nothing, and
// nothing of the limit is wasted. Its burst bears 45 ms of jitter; the worst
// window tells how little was used of it.
func TestFourProcessesShareALimit(t *testing.T) {
	long(t, "takes 20 s")
	const rate, processes = 200, 4
	server := redistest.New(t)
	p, url := strict(t, rate, 10)
	prefix := redistest.Prefix(t)
	var fleet []*worker
	for range processes {
		fleet = append(fleet, startWorker(t, job{
			Redis: server.URL(), Prefix: prefix, Limit: "200/s", API: url, Calls: 20,
		}))
	}
	time.Sleep(20 * time.Second)
	var lateness []time.Duration
	for _, w := range fleet {
		r := w.stop()
		require.Empty(t, r.Errors)
		require.Greater(t, r.Calls, rate*20/processes/4, "every process has its share")
		lateness = append(lateness, r.Lateness...)
	}
	s := p.Summary()
	slices.Sort(lateness)
	t.Logf("SHARE %s: %d calls by %d processes at %d/s, %d refused, utilization %.4f, call − due: median %v, p99 %v, worst 1 s window %d",
		server.Kind, s.Requests, processes, rate, s.Refused, s.Utilization(rate, 1),
		lateness[len(lateness)/2], lateness[len(lateness)*99/100], p.WorstWindow(time.Second))
	require.Zero(t, s.Refused)
	require.GreaterOrEqual(t, s.Utilization(rate, 1), 0.99)
}

// A process that was suspended wakes after its turns; it claims others instead
// of calling late and all at once.
func TestSuspendedProcessClaimsAgain(t *testing.T) {
	long(t, "takes 6 s")
	const rate = 100
	server := redistest.New(t)
	p, url := strict(t, rate, 10)
	prefix := redistest.Prefix(t)
	start := func() *worker {
		return startWorker(t, job{Redis: server.URL(), Prefix: prefix, Limit: "100/s", API: url, Calls: 100})
	}
	sleeper, other := start(), start()
	time.Sleep(2 * time.Second)
	sleeper.signal(syscall.SIGSTOP)
	time.Sleep(2 * time.Second)
	sleeper.signal(syscall.SIGCONT)
	time.Sleep(2 * time.Second)
	slept, worked := sleeper.stop(), other.stop()
	t.Logf("SUSPENDED 2 s of 6: %d calls by the sleeper, %d by the other, %d refused, worst 100 ms window %d",
		slept.Calls, worked.Calls, p.Summary().Refused, p.WorstWindow(100*time.Millisecond))
	require.Empty(t, slept.Errors)
	require.Empty(t, worked.Errors)
	require.Zero(t, p.Summary().Refused)
	require.Greater(t, slept.Calls, 100, "the sleeper works again")
}

// A process that is killed costs the fleet no more than the turns that it had
// fixed already, those of the next second, however many numbers it held.
func TestKilledProcessCostsNoCapacity(t *testing.T) {
	long(t, "takes 8 s")
	const rate = 50
	server := redistest.New(t)
	p, url := strict(t, rate, 10)
	prefix := redistest.Prefix(t)
	victim := startWorker(t, job{Redis: server.URL(), Prefix: prefix, Limit: "50/s", API: url, Calls: 300})
	other := startWorker(t, job{Redis: server.URL(), Prefix: prefix, Limit: "50/s", API: url, Calls: 300})
	time.Sleep(3 * time.Second)
	victim.kill()
	time.Sleep(5 * time.Second)
	r := other.stop()
	s := p.Summary()
	t.Logf("KILLED a process that held about 300 numbers: %d calls, %d refused, utilization %.4f",
		s.Requests, s.Refused, s.Utilization(rate, 1))
	require.Empty(t, r.Errors)
	require.Zero(t, s.Refused)
	// Of 8 s, half the turns of one.
	require.GreaterOrEqual(t, s.Utilization(rate, 1), 0.9)
}

// The strict bound fixes no turn before it has come, and still keeps the limit.
func TestStrictBound(t *testing.T) {
	server := redistest.New(t)
	p, url := strict(t, 50, 10)
	w := startWorker(t, job{
		Redis: server.URL(), Prefix: redistest.Prefix(t), Limit: "50/s", API: url, Calls: 10, Bound: reserve.Strict,
	})
	time.Sleep(2 * time.Second)
	r := w.stop()
	t.Logf("STRICT %d calls, %d refused", r.Calls, r.Refused)
	require.Empty(t, r.Errors)
	require.Zero(t, p.Summary().Refused)
	require.Greater(t, r.Calls, 50)
}

// A key that expired is a full bucket, on a Redis whose keys really expire.
func TestKeysExpire(t *testing.T) {
	server := redistest.New(t)
	client := server.Client(t)
	prefix := redistest.Prefix(t)
	l, err := reserve.New(client, reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerSecond(20).Burst(5)})
	require.NoError(t, err)
	require.NoError(t, l.WaitN(t.Context(), 5))
	key := prefix + ":{api}:line"
	left, err := client.PTTL(t.Context(), key).Result()
	require.NoError(t, err)
	require.InDelta(t, 91*time.Second, left, float64(time.Second), "as long as a process counts")
	require.NoError(t, client.PExpire(t.Context(), key, 400*time.Millisecond).Err())
	require.Eventually(t, func() bool {
		n, err := client.Exists(t.Context(), key).Result()
		return err == nil && n == 0
	}, 5*time.Second, 20*time.Millisecond)
	ok, err := l.AllowN(t.Context(), 5)
	require.NoError(t, err)
	require.True(t, ok)
}

// Under the policy fail, a Redis that can not be reached gives a typed error.
func TestUnavailableRedis(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { _ = client.Close() }()
	l, err := reserve.New(client, reserve.Config{
		Name: "api", Limit: reserve.PerSecond(1), Outage: reserve.Outage{Policy: reserve.PolicyFail},
	})
	require.NoError(t, err)
	err = l.Wait(t.Context())
	require.ErrorIs(t, err, reserve.ErrUnavailable)
	require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown)
	t.Log(err)
}
