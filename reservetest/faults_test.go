package reservetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

func TestOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		client := server.Client()
		require.NoError(t, client.Set(t.Context(), "key", "value", 0).Err())
		server.Outage(time.Minute)
		require.Error(t, client.Ping(t.Context()).Err())
		require.Error(t, server.Client().Ping(t.Context()).Err(), "by a new connection")
		time.Sleep(time.Minute)
		require.Equal(t, "value", client.Get(t.Context(), "key").Val())

		server.Outage(time.Hour)
		require.Error(t, client.Ping(t.Context()).Err())
		server.Outage(0)
		require.NoError(t, client.Ping(t.Context()).Err())
	})
}

// The policies of an outage can be tried.
func TestPolicies(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		api := reservetest.NewAPI(t, reserve.PerSecond(10).Burst(2))
		l := server.Limiter(config(reserve.PerSecond(10)))
		require.NoError(t, job(t.Context(), l, api.Client()))
		server.Outage(30 * time.Second)
		began := time.Now()
		require.NoError(t, job(t.Context(), l, api.Client()))
		require.InDelta(t, 40*time.Second, time.Since(began), float64(3*time.Second), "wait waits")
		require.Zero(t, api.Refused())
	})
}

func TestDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		client := server.Client()
		took := func() time.Duration {
			began := time.Now()
			require.NoError(t, client.Ping(t.Context()).Err())
			return time.Since(began)
		}
		took() // connects
		require.Zero(t, took())
		server.Delay(200 * time.Millisecond)
		require.Equal(t, 400*time.Millisecond, took(), "also by a connection that was there before")
		server.Delay(0)
		require.Zero(t, took())
	})
}

// What a lost answer gave is not given twice.
func TestLoseReplies(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		const script = "return redis.call('incr', KEYS[1])"
		client := server.Client()
		n := func() string { return client.Get(t.Context(), "n").Val() }
		server.LoseReplies(1)
		require.Error(t, client.EvalSha(t.Context(), "none", []string{"n"}).Err())
		require.Error(t, client.Eval(t.Context(), script, []string{"n"}).Err(), "what was refused is no answer of a script")
		require.Equal(t, "1", n(), "it was carried out")
		require.EqualValues(t, 2, client.Eval(t.Context(), script, []string{"n"}).Val(), "one is lost, not two")

		hash := client.ScriptLoad(t.Context(), script).Val()
		server.LoseReplies(2)
		require.NoError(t, client.Ping(t.Context()).Err(), "that is no script")
		require.Error(t, client.EvalSha(t.Context(), hash, []string{"n"}).Err())
		require.Equal(t, "3", n())
		require.Error(t, client.Eval(t.Context(), "return false", nil).Err())
		require.EqualValues(t, 4, client.EvalSha(t.Context(), hash, []string{"n"}).Val())
		server.LoseReplies(1)
		server.LoseReplies(0)
		require.EqualValues(t, 5, client.EvalSha(t.Context(), hash, []string{"n"}).Val())

		api := reservetest.NewAPI(t, reserve.PerSecond(10).Burst(2))
		l := server.Limiter(config(reserve.PerSecond(10)))
		server.LoseReplies(3)
		require.NoError(t, job(t.Context(), l, api.Client()))
		require.Zero(t, api.Refused())
	})
}

// Heartbeats use up none of the answers that are to be lost: those of calls are.
func TestHeartbeatsAreNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		l := server.Limiter(config(reserve.PerSecond(10)))
		require.NoError(t, l.Wait(t.Context()))
		server.LoseReplies(1)
		time.Sleep(10 * time.Second)
		require.Error(t, server.Client().Eval(t.Context(), "return 1", nil).Err())
	})
}

// Lost data opens no bucket for who called before.
func TestLoseData(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		client := server.Client()
		require.NoError(t, client.Set(t.Context(), "key", "value", 0).Err())
		l := server.Limiter(config(reserve.PerHour(1)))
		require.NoError(t, l.Wait(t.Context()))
		server.LoseData()
		require.Zero(t, client.Exists(t.Context(), "key").Val())
		ok, err := l.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, ok)
	})
}

func TestStepClock(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		client := server.Client()
		ahead := func() time.Duration { return time.Until(client.Time(t.Context()).Val()).Round(time.Second) }
		left := func() time.Duration { return client.TTL(t.Context(), "key").Val().Round(time.Second) }
		require.Zero(t, ahead())
		require.NoError(t, client.Set(t.Context(), "key", "value", time.Hour).Err())
		server.StepClock(10 * time.Minute)
		require.Equal(t, 50*time.Minute, left())
		time.Sleep(time.Minute)
		require.Equal(t, 10*time.Minute, ahead(), "and it goes on")
		require.Equal(t, 49*time.Minute, left())
		server.StepClock(-11 * time.Minute)
		require.Equal(t, -time.Minute, ahead())
		server.StepClock(time.Minute)
		require.Zero(t, ahead())
		require.Equal(t, 48*time.Minute, left())
		time.Sleep(40 * time.Minute)
		require.Zero(t, ahead())
		require.Equal(t, 8*time.Minute, left())
	})
}

// The limit holds whatever the clock of Redis does.
func TestStepsBreakNoLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		api := reservetest.NewAPI(t, reserve.PerSecond(10).Burst(2))
		l := server.Limiter(config(reserve.PerSecond(10)))
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
			require.NoError(t, job(t.Context(), l, api.Client()))
			server.StepClock(step)
		}
		require.NoError(t, job(t.Context(), l, api.Client()))
		require.Zero(t, api.Refused())
	})
}
