package lua

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Places that were left leave a gap in the stretch of their flow. That is no further flow: urgent
// calls have no more of the limit because of it.
func TestGapsAreNoFlows(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		urgent := func(leaves bool) []float64 {
			s, who, limits := backlog(t, server.Client(t), queuemodel.Limit{Kind: "p", A: second, B: 1}, 0)
			one := []queuemodel.Part{{Cost: 1}}
			flow := &queuemodel.Flow{Name: "x", Weight: 1}
			_, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 5, Number: 1, Parts: one, Flow: flow}})
			require.NoError(t, err)
			if leaves {
				_, left, err := s.Leave(who, limits, 0, "place", "3", 1, flow)
				require.NoError(t, err)
				require.EqualValues(t, 1, left)
			}
			_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 3, Number: 10, Parts: one, Flow: &queuemodel.Flow{Weight: 1, Urgent: 0.2}}})
			require.NoError(t, err)
			var tags []float64
			for _, a := range answers {
				tags = append(tags, a.Tags[0]-answers[0].Tags[0])
			}
			return tags
		}
		require.InDeltaSlice(t, []float64{0, 4 * second, 8 * second}, urgent(false), 1)
		require.Equal(t, urgent(false), urgent(true))
	})
}
