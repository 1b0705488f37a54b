package riverpace_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/riverpace"
)

// jobs works jobs as River does, without a database.
type jobs struct {
	*testing.T
	river.Config
}

// pace returns jobs that wait for limits.
func pace(t *testing.T, limits reserve.Turns, config riverpace.Config) jobs {
	t.Helper()
	return paceEvery(t, 0, limits, config)
}

// paceEvery is pace with a FetchPollInterval.
func paceEvery(t *testing.T, poll time.Duration, limits reserve.Turns, config riverpace.Config) jobs {
	t.Helper()
	config.Logger = quiet
	paced, err := riverpace.New(limits, config)
	require.NoError(t, err)
	j := jobs{T: t, Config: river.Config{FetchPollInterval: poll}}
	require.NoError(t, paced.Apply(&j.Config))
	return j
}

func (j jobs) work(ctx context.Context, id int64, work func(context.Context) error) error {
	return j.Plugins[0].(rivertype.WorkerMiddleware).Work(ctx, &rivertype.JobRow{ID: id, Attempt: 1, Kind: "call"}, work)
}

// snoozed expects that the error is a snooze, and returns how long it is.
func snoozed(t *testing.T, err error) time.Duration {
	t.Helper()
	var snooze *river.JobSnoozeError
	require.ErrorAs(t, err, &snooze)
	return snooze.Duration
}

func limiter(t *testing.T, limit reserve.Limit) *reserve.Limiter {
	t.Helper()
	l, err := reserve.New(redistest.Mini(t).Client(t), reserve.Config{Name: "api", Prefix: redistest.Prefix(t), Limit: limit, Settles: limit.Kind() == reserve.KindPaced})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func nothing(context.Context) error { return nil }

func never(context.Context) error { panic("a job is worked without its turn") }

func TestConfigErrors(t *testing.T) {
	l, other := limiter(t, reserve.PerSecond(1)), limiter(t, reserve.PerSecond(1))
	apply := func(config *river.Config, times int) (err error) {
		paced, err := riverpace.New(l, riverpace.Config{})
		require.NoError(t, err)
		for range times {
			err = paced.Apply(config)
		}
		return err
	}
	_, none := riverpace.New(nil, riverpace.Config{})
	_, twoGroups := riverpace.New(both{l, other}, riverpace.Config{})
	for text, err := range map[string]error{
		"limits: must not be nil":       none,
		"limits: ":                      twoGroups,
		"river.Config: must not be nil": apply(nil, 1),
		"river.Config.RescueStuckJobsAfter: 1m5s is too short: a job may wait for 9.2s and then work for 1m0s": apply(&river.Config{RescueStuckJobsAfter: 65 * time.Second}, 1),
		"Pacer: was applied to a client before": apply(&river.Config{}, 2),
	} {
		require.ErrorIs(t, err, riverpace.ErrInvalid)
		require.ErrorContains(t, err, "riverpace: invalid "+text)
	}
	require.NoError(t, apply(&river.Config{RescueStuckJobsAfter: 70 * time.Second}, 1))
}

// both is a pair of limits that no call can need together.
type both [2]*reserve.Limiter

func (b both) Limits() []*reserve.Limiter                          { return b[:] }
func (b both) String() string                                      { return "both" }
func (b both) Pause(context.Context, time.Duration, string) error  { return nil }
func (b both) PauseUntil(context.Context, time.Time, string) error { return nil }
func (b both) Resume(context.Context) error                        { return nil }

// A Need that is not valid fails the attempt with an error that says why.
func TestTurnErrors(t *testing.T) {
	l, lost := limiter(t, reserve.PerSecond(1).Burst(2)), errors.New("the tenant is not known")
	for text, of := range map[string]struct {
		turn riverpace.Need
		err  error
	}{
		"the tenant is not known": {err: lost}, "costs": {turn: riverpace.Need{Costs: []int{1, 1}}}, "burst": {turn: riverpace.Need{Costs: []int{3}}},
	} {
		err := pace(t, l, riverpace.Config{
			Need: func(context.Context, *rivertype.JobRow) (riverpace.Need, error) { return of.turn, of.err },
		}).work(t.Context(), 1, never)
		require.NotErrorIs(t, err, &river.JobSnoozeError{})
		require.ErrorContains(t, err, `riverpace: the turn of a job of kind "call"`)
		require.ErrorContains(t, err, text)
	}
}

// A job may name its own limits and costs, or need no turn. It may settle the cost that it used.
func TestTurns(t *testing.T) {
	l := limiter(t, reserve.PerHour(1).Burst(10))
	j := pace(t, l, riverpace.Config{Need: func(_ context.Context, job *rivertype.JobRow) (riverpace.Need, error) {
		return riverpace.Need{Limits: l.For("tenant"), Costs: []int{8}, Skip: job.ID == 2}, nil
	}})
	require.NoError(t, j.work(t.Context(), 1, func(ctx context.Context) error {
		return riverpace.Reservation(ctx).Settle(ctx, 3)
	}))
	require.NoError(t, j.work(t.Context(), 2, func(ctx context.Context) error {
		require.Nil(t, riverpace.Reservation(ctx))
		return nil
	}))
	state, err := l.For("tenant").State(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 7, state.Stored, 1)
}

// A job whose turn is far away is booked, and snoozed until shortly before the turn. It keeps its place if
// it comes back too early.
func TestFarTurns(t *testing.T) {
	l := limiter(t, reserve.PerMinute(1))
	j := pace(t, l, riverpace.Config{})
	require.NoError(t, j.work(t.Context(), 1, nothing))
	for range 2 {
		for i, most := range []time.Duration{time.Minute, 2 * time.Minute} {
			snooze := snoozed(t, j.work(t.Context(), int64(2+i), never))
			require.Less(t, snooze, most-reserve.Lead)
			require.Greater(t, snooze, most-30*time.Second)
		}
	}
	state, err := l.State(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, state.Booked)
}

// A job holds its slot until its work ends, also with an error or a panic.
func TestSlots(t *testing.T) {
	j := pace(t, limiter(t, reserve.Concurrent(1)), riverpace.Config{})
	failed := errors.New("the API is down")
	require.ErrorIs(t, j.work(t.Context(), 1, func(context.Context) error { return failed }), failed)
	require.PanicsWithValue(t, "boom", func() { _ = j.work(t.Context(), 2, func(context.Context) error { panic("boom") }) })
	require.NoError(t, j.work(t.Context(), 3, func(ctx context.Context) error {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		snoozed(t, j.work(short, 4, never))
		return nil
	}))
	require.NoError(t, j.work(t.Context(), 4, nothing))
}

// A waiting job returns to River at once when its context ends, and keeps its place.
func TestContextsEnd(t *testing.T) {
	l := limiter(t, reserve.PerMinute(2))
	j := paceEvery(t, time.Minute, l, riverpace.Config{})
	require.NoError(t, j.work(t.Context(), 1, nothing))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- j.work(ctx, 2, never) }()
	expect := func(waiting, booked int64) {
		require.Eventually(t, func() bool {
			state, err := l.State(t.Context())
			return err == nil && state.Waiting == waiting && state.Booked == booked
		}, liveness, time.Millisecond)
	}
	expect(1, 0)
	cancel()
	require.Zero(t, snoozed(t, <-ended))
	expect(0, 1)
}

// A job comes back to its place, and its context ends while it asks. It still has its place.
func TestAContextEndsWhileAsking(t *testing.T) {
	client, prefix := redistest.Mini(t).Client(t), redistest.Prefix(t)
	l, err := reserve.New(client, reserve.Config{Name: "api", Prefix: prefix, Limit: reserve.PerMinute(2)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	j := pace(t, l, riverpace.Config{})
	require.NoError(t, j.work(t.Context(), 1, nothing))
	first := snoozed(t, j.work(t.Context(), 2, never))
	snoozed(t, j.work(t.Context(), 3, never))

	ctx, cancel := context.WithCancel(t.Context())
	j = paceEvery(t, time.Minute, l, riverpace.Config{})
	client.AddHook(afterAsk(cancel)) // the reply is there, and the caller has not received it
	require.Zero(t, snoozed(t, j.work(ctx, 2, never)))
	again := snoozed(t, pace(t, l, riverpace.Config{}).work(t.Context(), 2, never))
	require.LessOrEqual(t, again, first, "it is before the third job")
}

// afterAsk calls a function once Redis has answered a script.
type afterAsk func()

func (afterAsk) DialHook(next redis.DialHook) redis.DialHook { return next }

func (afterAsk) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f afterAsk) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" {
			f()
			time.Sleep(50 * time.Millisecond)
		}
		return err
	}
}

// Redis does not answer. The policy decides, and no attempt fails.
func TestRedisIsAway(t *testing.T) {
	for policy, works := range map[reserve.Policy]bool{
		reserve.PolicyFail: false, reserve.PolicyLocal: true, reserve.PolicyOpen: true,
	} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		l, err := reserve.New(client, reserve.Config{
			Name: "api", Prefix: redistest.Prefix(t), Limit: reserve.PerSecond(100), Logger: quiet, Outage: reserve.Outage{Policy: policy, Failures: 1},
		})
		require.NoError(t, err)
		worked := false
		err = pace(t, l, riverpace.Config{}).work(t.Context(), 1, func(context.Context) error { worked = true; return nil })
		require.Equal(t, works, worked, policy)
		if !works {
			again := snoozed(t, err)
			require.GreaterOrEqual(t, again, time.Second)
			require.Less(t, again, 3*time.Second)
		}
		require.NoError(t, l.Close())
		require.NoError(t, client.Close())
	}
}
