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
			_, waiting, err := s.Ask(who, limits, []queuemodel.Item{{Count: 5, Number: 1, Parts: one, Flow: flow}})
			require.NoError(t, err)
			if leaves {
				_, left, err := s.Leave(who, limits, 0, "place", "3", 1, flow)
				require.NoError(t, err)
				require.EqualValues(t, 1, left)
			}
			_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 3, Number: 10, Parts: one, Flow: &queuemodel.Flow{Weight: 1, Urgent: 0.2}}})
			require.NoError(t, err)
			var tags []float64
			for _, a := range answers[1:] { // the first one is before all others
				tags = append(tags, a.Tags[0]-waiting[1].Tags[0])
			}
			return tags
		}
		require.InDeltaSlice(t, []float64{4 * second, 8 * second}, urgent(false), 1)
		require.Equal(t, urgent(false), urgent(true))
	})
}

// A call that waited at another limit comes with its old tag, and others had turns since. It does not go before an
// urgent call that waits here.
func TestUrgentCallsGoBeforeThoseThatWaitedElsewhere(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		s, who, limits := backlog(t, client, queuemodel.Limit{Kind: "p", A: second, B: 1}, 0)
		asks := func(number, count int, tag float64, flow *queuemodel.Flow) (tags []float64) {
			_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: count, Number: number, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}, Flow: flow}})
			require.NoError(t, err)
			for _, a := range answers {
				tags = append(tags, a.Tags[0])
			}
			return tags
		}
		y := &queuemodel.Flow{Name: "y", Weight: 1}
		tags := asks(1, 5, 0, y)
		for k := 1; k < 4; k++ {
			who.Now += second
			asks(1+k, 1, tags[k], y)
		}
		asks(10, 1, 0, &queuemodel.Flow{Weight: 1, Urgent: 0.5})
		asks(20, 1, tags[1]+second/2, &queuemodel.Flow{Name: "z", Weight: 1})
		first, err := client.ZRange(t.Context(), s.keys[1], 0, 0).Result()
		require.NoError(t, err)
		require.Equal(t, []string{"p:10:1:0:"}, first)
	})
}

// A state begins anew, and the waiting calls of a flow bring their tags. Each of them keeps its own tag, and a new call is
// behind them.
func TestCallsOfAFlowKeepTheirTagsAfterALoss(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits := backlog(t, server.Client(t), queuemodel.Limit{Kind: "p", A: second, B: 1}, 0)
		x := &queuemodel.Flow{Name: "x", Weight: 1}
		var items []queuemodel.Item
		for k := range 4 {
			items = append(items, queuemodel.Item{Count: 1, Number: 1 + k, Parts: []queuemodel.Part{{Cost: 1, Tag: who.Now + float64(k)*second}}, Flow: x})
		}
		items = append(items, queuemodel.Item{Count: 1, Number: 5, Parts: []queuemodel.Part{{Cost: 1}}, Flow: x})
		_, answers, err := s.Ask(who, limits, items)
		require.NoError(t, err)
		for k, a := range answers {
			require.InDelta(t, who.Now+float64(k)*second, a.Tags[0], 1, k)
		}
	})
}
