package lua

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

const renews = 1e7 // micros: RENEW of head.lua

// A call that joins a queue takes the short path only if the state is as new as its caller knows, and if the keys
// need not be renewed. Its answer is not enough to tell: the histories do not see these two.
func TestJoiningAQueueRenewsItsKeysAndSeesAnOlderState(t *testing.T) {
	client := redistest.New(t).Client(t)
	s, who, limits := backlog(t, client, queuemodel.Limit{Kind: "p", A: renews, B: 20}, 64)
	next := 100
	join := func(cost float64) queuemodel.Head {
		next++
		heads, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: next, Parts: []queuemodel.Part{{Cost: cost}}}})
		require.NoError(t, err)
		require.Zero(t, answers[0].Status, "it has a place")
		limits[0].Known, limits[0].Version, limits[0].Reach = strings.TrimPrefix(heads[0].Text, "~"), heads[0].Version, heads[0].Reach
		return heads[0]
	}
	first := join(20) // the keys live as long as its forecast
	_, _, err := s.Leave(who, limits, 0, "place", strconv.Itoa(next), 20, nil)
	require.NoError(t, err)
	require.Equal(t, first.Text, join(1).Text)

	require.NoError(t, client.PExpire(t.Context(), s.keys[KeyPlaces], 5*time.Second).Err())
	who.Now += 1e6
	join(1)
	require.LessOrEqual(t, client.PTTL(t.Context(), s.keys[KeyPlaces]).Val(), 5*time.Second, "most calls renew no keys")
	who.Now = startMicros + renews
	join(1)
	require.Greater(t, client.PTTL(t.Context(), s.keys[KeyPlaces]).Val(), 10*time.Second)

	require.NoError(t, client.HIncrBy(t.Context(), s.keys[KeyState], "version", -4).Err())
	require.NotEqual(t, first.Text, join(1).Text, "the state is older, so it has another epoch now")
}

func TestOthersAreToldWhoLeavesTheirQueue(t *testing.T) {
	h := listenToHeads(t, queuemodel.Limit{Kind: "p", A: 1e6, B: 1})
	limits := []queuemodel.Limit{h.limit}
	var answers []queuemodel.Answer
	for number := range 4 {
		heads, got, err := h.Ask(h.as("a", 0), limits, []queuemodel.Item{{Count: 1, Number: number, Parts: []queuemodel.Part{{Cost: 1}}}})
		require.NoError(t, err)
		answers = append(answers, got...)
		limits[0].Known, limits[0].Version, limits[0].Reach = strings.TrimPrefix(heads[0].Text, "~"), heads[0].Version, heads[0].Reach
	}
	h.told()
	for _, number := range []string{"2", "2", "3"} {
		_, _, err := h.Leave(h.as("a", 0), limits, 0, "place", number, 1, nil)
		require.NoError(t, err)
	}
	require.Equal(t, []string{fmt.Sprintf("left:%.0f", answers[2].Tags[0])}, h.told(), "it leaves once, and nobody is behind the last one")
}
