package lua

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A turn goes back long after it was due, as its process was stopped: those who wait behind it
// have not been late for it, and keep their places.
func TestATurnThatComesBackIsNotOverdue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		hourly := queuemodel.Limit{Kind: "p", A: 3600e6, B: 1}
		s, who, limits := backlog(t, client, hourly, 0)
		one := func(number int, tag float64) []queuemodel.Item {
			return []queuemodel.Item{{Count: 1, Number: number, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}}
		}
		_, first, err := s.Ask(who, limits, one(1, 0))
		require.NoError(t, err)
		require.EqualValues(t, 1, first[0].Status)
		others := who
		others.Process, others.Now = "q", who.Now+1000
		for n := range 3 {
			_, waits, err := s.Ask(others, limits, one(10+n, 0))
			require.NoError(t, err)
			require.EqualValues(t, 0, waits[0].Status)
		}

		who.Now, who.Serial, limits[0].Back = who.Now+20e6, 2, "p 1"
		_, again, err := s.Ask(who, limits, one(1, who.Now-20e6))
		require.NoError(t, err)
		require.EqualValues(t, 1, again[0].Status, "it was first")
		places, err := client.ZCard(t.Context(), s.keys[1]).Result()
		require.NoError(t, err)
		require.EqualValues(t, 3, places)
	})
}
