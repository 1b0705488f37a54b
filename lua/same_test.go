package lua

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A full Redis gives no turns, not to calls either whose places it could remove.
func TestAFullRedisGivesNoTurns(t *testing.T) {
	client := redistest.Local(t, "--save", "").Client(t) // of this test alone
	keys := Keys(redistest.Prefix(t), "", "api", "p", "")
	s := serverOf(t.Context(), client, keys)
	who := queuemodel.Caller{Now: startMicros, Horizon: 1000, Near: 1000, Grace: 300000, Run: "run", Process: "p", Serial: 1}
	limits := []queuemodel.Limit{{Kind: "p", A: second, B: 1}}
	_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 2, Number: 1, Parts: []queuemodel.Part{{Cost: 1}}}})
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{answers[0].Status, answers[1].Status})

	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	who.Now, who.Serial = who.Now+second, 2
	again := []queuemodel.Item{{Count: 1, Number: 2, Parts: []queuemodel.Part{{Cost: 1, Tag: answers[1].Tags[0]}}}}
	_, _, err = s.Ask(who, limits, again)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	_, answers, err = s.Ask(who, limits, again)
	require.NoError(t, err)
	require.Equal(t, 1, answers[0].Status, "it has its place still")
}

// A limit that a call names twice is one: its permit is given once.
func TestALimitNamedTwice(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		keys := Keys(redistest.Prefix(t), "", "api", "p", "")
		s := serverOf(t.Context(), server.Client(t), slices.Concat(keys, keys))
		who := queuemodel.Caller{Now: startMicros, Horizon: 1000, Near: 1000, Grace: 300000, Run: "run", Process: "p", Serial: 1}
		limit := queuemodel.Limit{Kind: "p", A: 1e6, B: 1}
		_, answers, err := s.Ask(who, []queuemodel.Limit{limit, limit}, []queuemodel.Item{
			{Count: 1, Number: 1, Settles: true, Parts: []queuemodel.Part{{Limit: 0, Cost: 1}}},
			{Count: 1, Number: 2, Settles: true, Parts: []queuemodel.Part{{Limit: 1, Cost: 1}}},
		})
		require.NoError(t, err)
		require.Equal(t, []int{1, 0}, []int{answers[0].Status, answers[1].Status})
	})
}
