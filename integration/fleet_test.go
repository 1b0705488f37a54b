package integration

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/ledger"
	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// fleetScene is processes that call an API all the time, each call in its turn.
type fleetScene struct {
	*testing.T
	job    job
	limit  ledger.Limit
	ledger string // the ledger's directory
	calls  atomic.Int64
	failed atomic.Int64 // calls of processes that tell of them
}

func newFleetScene(t *testing.T, rate, callers int) *fleetScene {
	t.Helper()
	s := &fleetScene{T: t, limit: ledger.Limit{Rate: float64(rate), Burst: 1}, ledger: t.TempDir()}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == failedPath {
			s.failed.Add(1)
			return
		}
		s.calls.Add(1)
	}))
	t.Cleanup(server.Close)
	s.job = job{
		Redis: redistest.New(t).URL(), Prefix: redistest.Prefix(t), Limit: strconv.Itoa(rate) + "/s",
		API: server.URL, Calls: callers, Turns: s.ledger,
	}
	return s
}

// more waits until the API has had this many more calls.
func (s *fleetScene) more(calls int64) {
	s.Helper()
	from := s.calls.Load()
	if !assert.Eventually(s, func() bool { return s.calls.Load() >= from+calls }, liveness, 10*time.Millisecond) {
		s.Fatalf("%d of %d more calls in %v", s.calls.Load()-from, calls, liveness)
	}
}

// allCall waits until this many processes have had turns. By then, they handle signals.
func allCall(t *testing.T, ledger string, processes int) {
	t.Helper()
	require.Eventually(t, func() bool {
		seen := map[string]bool{}
		for _, turn := range turnsIn(t, ledger) {
			seen[turn.Process] = true
		}
		return len(seen) == processes
	}, liveness, 50*time.Millisecond, "every process has its share")
}

// judge expects that the turns keep the limit, and logs figures.
func (s *fleetScene) judge(figures map[string]any) {
	s.Helper()
	turns := turnsIn(s, s.ledger)
	require.GreaterOrEqual(s, len(turns), int(s.calls.Load()), "each call had its turn")
	keep(s, s.limit, turns)
	var late []time.Duration
	for _, turn := range turns {
		late = append(late, turn.Given.Sub(turn.Moment()))
	}
	slices.Sort(late)
	took := turns[len(turns)-1].Moment().Sub(turns[0].Moment())
	figures["turns"], figures["rate"] = len(turns), s.limit.Rate
	figures["utilization"] = round(float64(len(turns)-1) / took.Seconds() / s.limit.Rate)
	figures["refused_as_given"] = s.limit.RefusedAsGiven(turns)
	figures["late_ms"] = []float64{ms(late[len(late)/2]), ms(late[len(late)*99/100]), ms(late[len(late)-1])}
	measure(s.T, s.Name(), figures)
}

func ms(d time.Duration) float64 { return round(d.Seconds() * 1000) }

// Four processes share 200/s: together they keep it, and all of them call.
func TestFourProcessesShareALimit(t *testing.T) {
	long(t, "takes 3 s")
	t.Parallel()
	s := newFleetScene(t, 200, 20)
	var fleet []*worker
	for range 4 {
		fleet = append(fleet, startWorker(t, s.job))
	}
	allCall(t, s.ledger, len(fleet))
	s.more(400)
	for _, w := range fleet {
		r := w.stop()
		require.Empty(t, r.Errors)
		require.Positive(t, r.Calls, "every process has its share")
	}
	s.judge(map[string]any{"processes": 4})
}

// If permits are available and no call waits, the processes keep the limit, too.
func TestFourProcessesWithPermitsToSpare(t *testing.T) {
	long(t, "takes 3 s")
	t.Parallel()
	const rate, burst = 5000, 500
	s := newFleetScene(t, rate, 4)
	s.job.Limit += " burst " + strconv.Itoa(burst)
	s.limit.Burst = burst
	var fleet []*worker
	for range 4 {
		fleet = append(fleet, startWorker(t, s.job))
	}
	allCall(t, s.ledger, len(fleet))
	s.more(3000)
	for _, w := range fleet {
		require.Empty(t, w.stop().Errors)
	}
	s.judge(map[string]any{"processes": 4})
}

// A process that was suspended wakes after its turns. It asks for others instead of calling late
// and all at once.
func TestSuspendedProcessAsksAgain(t *testing.T) {
	long(t, "takes 5 s")
	t.Parallel()
	s := newFleetScene(t, 100, 100)
	sleeper := startWorker(t, s.job)
	s.more(20)
	other := startWorker(t, s.job)
	allCall(t, s.ledger, 2)
	s.more(100)
	sleeper.signal(syscall.SIGSTOP)
	time.Sleep(1500 * time.Millisecond)
	sleeper.signal(syscall.SIGCONT)
	s.more(200) // as many as wait in both
	slept, worked := sleeper.stop(), other.stop()
	require.Empty(t, slept.Errors)
	require.Empty(t, worked.Errors)
	s.judge(map[string]any{"calls_of_the_sleeper": slept.Calls})
}

// A process that is killed while many of its calls wait delays no other process.
func TestKilledProcessHoldsNobodyUp(t *testing.T) {
	long(t, "takes 4 s")
	t.Parallel()
	s := newFleetScene(t, 100, 200)
	victim := startWorker(t, s.job)
	other := startWorker(t, s.job)
	allCall(t, s.ledger, 2)
	s.more(50)
	victim.kill()
	s.more(200)
	require.Empty(t, other.stop().Errors)
	s.judge(map[string]any{})
}

// A key that has expired is a full bucket, on a Redis with real expiry.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	client := redistest.New(t).Client(t)
	prefix := redistest.Prefix(t)
	for _, c := range []struct {
		limit       reserve.Limit
		least, most time.Duration
	}{
		{reserve.PerSecond(20).Burst(5), 20 * time.Second, time.Minute}, // it is renewed every 10 s only
		{reserve.Every(time.Hour).Burst(5), 5 * time.Hour, 6 * time.Hour},
	} {
		config := reserve.Config{Name: "api", Prefix: prefix, Limit: c.limit}
		l, err := reserve.New(client, config)
		require.NoError(t, err)
		_, err = l.ReserveN(t.Context(), 5)
		require.NoError(t, err)
		key := prefix + ":{api}:p"
		left, err := client.PTTL(t.Context(), key).Result()
		require.NoError(t, err)
		require.True(t, c.least < left && left < c.most, "%v", left)
		require.NoError(t, client.PExpire(t.Context(), key, 100*time.Millisecond).Err())
		require.Eventually(t, func() bool {
			n, err := client.Exists(t.Context(), key).Result()
			return err == nil && n == 0
		}, liveness, 20*time.Millisecond)
		other, err := reserve.New(client, config) // it does not know which permits were used
		require.NoError(t, err)
		r, err := other.ReserveN(t.Context(), 5)
		require.NoError(t, err)
		require.Zero(t, r.Delay(), "the bucket is full")
		require.NoError(t, client.Del(t.Context(), key).Err())
	}
}

// Under the policy fail, an unreachable Redis causes a typed error.
func TestUnavailableRedis(t *testing.T) {
	t.Parallel()
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
