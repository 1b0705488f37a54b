package lua

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// A turn of a rolling limit is usable for longer if its window has room for that. The window of somebody else's limit
// may have none.
func TestLateTurnsOfARollingLimit(t *testing.T) {
	eachDesk(t, func(d *desk) {
		ask := func() float64 {
			d.who.Serial++
			_, answers, err := d.server.Ask(d.who, d.limits, []queuemodel.Item{{Count: 1, Number: 1, Parts: single(1)}})
			require.NoError(d, err)
			require.Equal(d, 1, answers[0].Status)
			return answers[0].Usable - answers[0].Wait
		}
		require.Equal(d, 100_000.0, ask())
		for _, window := range []float64{1e6, 2e6} {
			_, err := d.server.Set(d.who, d.limits, 10, window, 1e6)
			require.NoError(d, err)
			require.Zero(d, ask(), "somebody has set a limit")
		}
	}, queuemodel.Limit{Kind: "r", A: 10, B: 2e6, Late: 100_000})
}
