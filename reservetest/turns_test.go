package reservetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/reservetest"
)

// Turns of all verbs are recorded: when, of which limit and key, and how many permits.
func TestRecordTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		turns := reservetest.RecordTurns(t)
		require.Empty(t, turns())
		l := server.Limiter(config(reserve.PerSecond(1).Burst(5)))
		other := server.Joint(
			reserve.Config{Name: "requests", Group: "g", Limit: reserve.PerSecond(1).Burst(5)},
			reserve.Config{Name: "tokens", Group: "g", Limit: reserve.PerSecond(1).Burst(5)})
		began := time.Now()
		require.NoError(t, l.WaitN(t.Context(), 5))
		require.NoError(t, l.For("a").WaitN(t.Context(), 2))
		require.NoError(t, l.WaitN(t.Context(), 3)) // in 3 s
		ok, err := l.For("a").AllowN(t.Context(), 5)
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = l.AllowN(t.Context(), 5)
		require.NoError(t, err)
		require.False(t, ok, "that is no turn")
		require.NoError(t, other.Wait(t.Context(), 1, 4))

		var all []reservetest.Turn
		for _, turn := range turns() {
			turn.At = time.Time{}.Add(turn.At.Sub(began).Round(100 * time.Millisecond))
			all = append(all, turn)
		}
		at := func(d time.Duration) time.Time { return time.Time{}.Add(d) }
		require.Equal(t, []reservetest.Turn{
			{At: at(0), Limit: "api", Cost: 5}, {At: at(0), Limit: "api/a", Cost: 2}, {At: at(3 * time.Second), Limit: "api", Cost: 3},
			{At: at(3 * time.Second), Limit: "api/a", Cost: 5},
			{At: at(3 * time.Second), Limit: "requests", Cost: 1}, {At: at(3 * time.Second), Limit: "tokens", Cost: 4},
		}, all)
	})
}

// A turn whose call was not made after all is none.
func TestUnusedTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, server *reservetest.Server) {
		turns := reservetest.RecordTurns(t)
		joint := server.Joint(config(reserve.PerSecond(1)))
		for _, id := range []string{"one", "two"} {
			call, err := joint.Ask(t.Context(), id, time.Hour)
			require.NoError(t, err)
			require.NoError(t, call.Wait(t.Context()))
			if id == "two" {
				require.Len(t, turns(), 2)
				require.NoError(t, call.PutBack(t.Context()))
			}
		}
		require.Len(t, turns(), 1)
	})
}

// Turns are recorded until the test ends, for one test at a time.
func TestRecordTurnsAlone(t *testing.T) {
	record := func(t *testing.T) string {
		f := &fatal{TB: t}
		func() {
			defer func() { _ = recover() }()
			reservetest.RecordTurns(f)
		}()
		return f.said
	}
	t.Run("once", func(t *testing.T) {
		reservetest.RecordTurns(t)
		require.Equal(t, "reservetest: RecordTurns: turns are recorded already", record(t))
	})
	t.Run("and again", func(t *testing.T) {
		reservetest.RecordTurns(t)
	})
	t.Run("parallel", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, record(t), "must not be used in a parallel test")
		t.Run("and below it", func(t *testing.T) {
			require.Contains(t, record(t), "must not be used in a parallel test")
		})
	})
}
