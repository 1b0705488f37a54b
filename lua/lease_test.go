package lua

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A lease takes over the slot of a call. Any process renews and ends it, also when the first process is dead. When it is
// over, the slot is free, and a call that waits knows when to look. Nobody else gets the slot meanwhile.
func TestLeases(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits, _ := slotOf(t, server.Client(t))
		given, number, tag := who.Now, 1, 0.0
		leave := func(process string, after float64, verb, which string) int64 {
			from := who
			from.Process, from.Now, limits[0].Clock = process, given+after, given+after
			_, left, err := s.Leave(from, limits, 0, verb, which, 1, &queuemodel.Flow{})
			require.NoError(t, err)
			return int64(left)
		}
		ask := func(process string, after float64) int {
			if tag == 0 {
				number++
			}
			from := who
			from.Process, from.Now, limits[0].Clock = process, given+after, given+after
			_, answers, err := s.Ask(from, limits, []queuemodel.Item{{Count: 1, Number: number, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
			require.NoError(t, err)
			if tag = 0; answers[0].Status == 0 {
				tag = answers[0].Tags[0]
			}
			return answers[0].Status
		}
		dies := func(process string, after float64) {
			require.NoError(t, s.client.(*redis.Client).ZAdd(t.Context(), s.keys[3], redis.Z{Score: -given - after, Member: process}).Err())
		}
		require.EqualValues(t, 1, leave("p", 0.1e6, "lease", "1 8000000 ~a"))
		require.EqualValues(t, 1, leave("p", 0.1e6, "lease", "1 8000000 ~a"), "a repeated message")
		require.Zero(t, leave("p", 0.1e6, "done", "1"), "the call no longer holds it")
		require.Zero(t, leave("p", 0.1e6, "lease", "1 8000000 ~b"), "nor can another lease have it")
		require.Zero(t, leave("p", 0.1e6, "lease", "0 8000000 ~b"))
		dies("p", 0.2e6)
		require.Zero(t, ask("other", 5e6), "the process is dead, and the lease holds")
		require.EqualValues(t, 1, leave("other", 7e6, "lease", "0 8000000 ~a"))
		require.Zero(t, ask("other", 14.9e6))
		who.Now = given + 14.9e6
		looked := s.run("leave", Leave, limits, append(headArgs(who, limits), 1, "look", "", 0))
		require.NoError(t, looked.err)
		require.Equal(t, whole(1e5-who.Way), strings.Fields(looked.values[2].(string))[2], "when to look again")
		require.Equal(t, 1, ask("other", 15.1e6), "it is over")
		require.Zero(t, leave("p", 15.2e6, "lease", "0 8000000 ~a"), "it was lost")

		last := whole(float64(number))
		require.EqualValues(t, 1, leave("other", 16e6, "lease", last+" 8000000 ~c"))
		require.EqualValues(t, 1, leave("~c", 17e6, "done", "1"))
		require.Zero(t, leave("p", 17e6, "lease", "0 8000000 ~c"), "it has ended")
		require.Empty(t, s.client.(*redis.Client).HGet(t.Context(), s.keys[0], "~c").Val())
		require.Equal(t, 1, ask("other", 17.1e6))
		last = whole(float64(number))
		require.EqualValues(t, 1, leave("other", 18e6, "lease", last+" 8000000 ~d"))
		require.EqualValues(t, 1, leave("~d", 18e6, "free", "1"))
		require.Zero(t, leave("other", 19e6, "lease", "0 8000000 ~d"), "it was taken away")
	})
}

// A lease does not take over the slot of a second call: two calls would share the slot of one.
func TestLeaseOfTwoCalls(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits, _ := slotOf(t, server.Client(t))
		leave := func(verb, which string) int64 {
			_, left, err := s.Leave(who, limits, 0, verb, which, 1, &queuemodel.Flow{})
			require.NoError(t, err)
			return int64(left)
		}
		leave("keep", "2 "+whole(who.Now)) // after a loss of data, say: this call holds a slot, too
		require.EqualValues(t, 1, leave("lease", "1 8000000 ~a"))
		require.Zero(t, leave("lease", "2 8000000 ~a"), "the name is taken")
		require.EqualValues(t, 1, leave("lease", "2 8000000 ~b"))
	})
}

// Another server keeps the leases that it knows, and a renewal brings back one that it does not know.
func TestLeasesAfterALossOfData(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits, _ := slotOf(t, server.Client(t))
		given := who.Now
		leave := func(run string, after float64, process, verb, which string) int64 {
			who.Run, who.Now, who.Process, limits[0].Clock = run, given+after, process, given+after
			_, left, err := s.Leave(who, limits, 0, verb, which, 1, &queuemodel.Flow{})
			require.NoError(t, err)
			return int64(left)
		}
		require.EqualValues(t, 1, leave(who.Run, 1e6, "p", "lease", "1 8000000 ~a"))
		require.EqualValues(t, 1, leave("another", 2e6, "p", "lease", "0 8000000 ~a"), "it stays")
		require.EqualValues(t, 1, leave("another", 2e6, "~a", "done", "1"))
		require.EqualValues(t, 1, leave("another", 3e6, "p", "lease", "0 8000000 ~b"), "it comes back while the limit is closed")
		require.Zero(t, leave("another", 4e6, "p", "lease", "0 8000000 ~c"), "but not above the limit")
	})
}
