package lua

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

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
