package lua

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// Permits that come back were not there before: a head that has not heard of them yet keeps its
// place, also where a newcomer of its own process asks first, and so does the next head.
func TestRefundsTakeNoPlaces(t *testing.T) {
	redistest.Each(t, func(t *testing.T, redis *redistest.Server) {
		limits := []queuemodel.Limit{{Kind: "p", A: 8000, B: 2500, Rank: 1}}
		client := redis.Client(t)
		s := &server{client: client, ctx: t.Context(), ask: Ask, keys: Keys(redistest.Prefix(t), "", "api", "p", "")}
		who := queuemodel.Caller{Now: 1e15, Horizon: 250_000, Near: 4_000, Grace: 300_000, Process: "a"}
		ask := func(number, count int, tag float64) []queuemodel.Answer {
			who.Serial++
			_, answers, err := s.Ask(who, limits, []queuemodel.Item{{
				Count: count, Number: number, Settles: true, Parts: []queuemodel.Part{{Cost: 600, Tag: tag}},
			}})
			require.NoError(t, err)
			return answers
		}
		settle := func(id string) {
			who.Serial++
			_, _, settled, err := s.Settle(who, limits, 0, queuemodel.Report{ID: id, Cost: 600, Used: 200})
			require.NoError(t, err)
			require.True(t, settled)
		}
		given := ask(1, 6, 0)
		for i, want := range []int{1, 1, 1, 1, 0, 0} {
			require.Equal(t, want, given[i].Status)
		}
		for _, id := range []string{"a:1", "a:2", "a:3", "a:4"} {
			settle(id)
		}
		for process, number := range map[string]int{"a": 7, "b": 8} {
			who.Process = process
			require.Equal(t, 0, ask(number, 1, 0)[0].Status, "a newcomer stands behind those who wait")
		}
		who.Process = "a"
		require.Equal(t, 1, ask(5, 1, given[4].Tags[0])[0].Status)
		who.Process = "b"
		require.Equal(t, 0, ask(9, 1, 0)[0].Status, "and behind the next one")
		places, err := client.ZCard(t.Context(), s.keys[1]).Result()
		require.NoError(t, err)
		require.EqualValues(t, 4, places)
	})
}

// What a process has spent while Redis was away is no refund: nobody is told that permits are there.
func TestSpendingWithoutRedisIsNoNews(t *testing.T) {
	client := redistest.New(t).Client(t)
	s, news := listening(t, client, "p")
	limits := []queuemodel.Limit{{Kind: "p", A: 1e6, B: 1, Rank: 1}}
	who := queuemodel.Caller{Now: startMicros, Horizon: 1000, Near: 1000, Grace: 300_000, Process: "a", Serial: 1}
	_, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 2, Number: 1, Parts: []queuemodel.Part{{Cost: 1}}}})
	require.NoError(t, err)
	_, _, _, err = s.Settle(who, limits, 0, queuemodel.Report{Cost: 3e6, Used: 5})
	require.NoError(t, err)
	require.NoError(t, client.Publish(t.Context(), s.client.(onChannel).channel, "the end").Err())
	message, err := news.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the end", message.Payload)
}
