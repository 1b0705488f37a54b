package lua

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// All keys of a limit expire, also those that are gone and come again in one script call: nobody
// may ever use the limit again.
func TestAllKeysExpire(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		s, who, limits := backlog(t, client, queuemodel.Limit{Kind: "p", A: second, B: 1}, 0)
		live := func(keys ...string) {
			for _, key := range keys {
				require.Positive(t, client.PTTL(t.Context(), key).Val(), key)
			}
		}
		one := []queuemodel.Part{{Cost: 1}}
		_, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 2, Number: 1, Parts: one}, {Count: 1, Number: 3, ID: "a", Patience: -1, Latest: 1e12, Parts: one}})
		require.NoError(t, err)
		live(s.keys[0], s.keys[1], s.keys[4])

		who.Now, who.Serial = who.Now+second, 2
		// The place has its turn, and another call enters; the booking ends, and another begins.
		_, answers, err := s.Ask(who, limits, []queuemodel.Item{
			{Count: 1, Number: 2, Parts: []queuemodel.Part{{Cost: 1, Tag: startMicros}}}, {Count: 2, Number: 10, Parts: one},
		})
		require.NoError(t, err)
		require.Equal(t, []int{1, 0, 0}, []int{answers[0].Status, answers[1].Status, answers[2].Status})
		live(s.keys[0], s.keys[1], s.keys[4])
	})
}
