package lua

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// A call that would miss its deadline has neither turn nor place, of whatever kind its limits are,
// with a flow or without. Of several that are alike one is answered. One that has the place of an
// ask whose reply was lost leaves it. A deadline counts from when the ask was sent.
func TestACallThatMissesItsDeadlineHasNoPlace(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for kind, limit := range map[string]queuemodel.Limit{
			"p": {Kind: "p", A: 1e6, B: 1}, "r": {Kind: "r", A: 1, B: 1e6}, "w": {Kind: "w", A: 1e6, B: 1e6},
		} {
			for name, flow := range map[string]*queuemodel.Flow{"": nil, " flow": {Name: "a", Weight: 1}} {
				t.Run(kind+name, func(t *testing.T) {
					client := server.Client(t)
					s, who, limits := backlog(t, client, limit, 0)
					ask := func(count, number int, within, tag float64) []queuemodel.Answer {
						who.Serial++
						_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: count, Number: number, Within: within, Flow: flow,
							Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
						require.NoError(t, err)
						return answers
					}
					places := func() int64 {
						n, err := client.ZCard(t.Context(), s.keys[1]).Result()
						require.NoError(t, err)
						return n
					}
					require.Equal(t, 1, ask(1, 1, 1, 0)[0].Status, "a turn that is due at once")
					waits := ask(1, 2, 5e6, 0)[0]
					require.Equal(t, 0, waits.Status, "in time")
					late := ask(10, 3, 1.5e6, 0)
					require.Len(t, late, 1)
					require.Equal(t, 4, late[0].Status)
					require.Greater(t, late[0].Wait, 1.5e6)
					require.EqualValues(t, 1, places())
					limits[0].Clock = who.Now - 4e5
					require.Equal(t, 4, ask(1, 14, late[0].Wait+3e5, 0)[0].Status, "some of it has passed on the way")
					require.Equal(t, 0, ask(1, 15, late[0].Wait+5e5, 0)[0].Status)
					limits[0].Clock = 0
					require.Equal(t, 4, ask(1, 15, 1.5e6, startMicros+1e6)[0].Status)
					require.Equal(t, 0, ask(1, 20, 0, 0)[0].Status, "without a deadline")
					require.EqualValues(t, 2, places())
					require.Equal(t, 4, ask(1, 20, 1.5e6, startMicros+1e6)[0].Status)
					require.EqualValues(t, 1, places(), "it has left")
					require.Equal(t, 0, ask(1, 2, 0, waits.Tags[0])[0].Status)
				})
			}
		}
	})
}

// The places of dead processes refuse no call for its deadline or for the length of the queue, of whatever
// kind the limit is, whether the head of the queue is dead or alive. Those of living processes do.
func TestPlacesOfTheDeadRefuseNoCall(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for kind, limit := range map[string]queuemodel.Limit{
			"p": {Kind: "p", A: 1e6, B: 1}, "w": {Kind: "w", A: 1e6, B: 1e6}, "r": {Kind: "r", A: 1, B: 1e6},
			"q": {Kind: "q", A: 1, B: 1, Edges: []float64{startMicros - 1e6, startMicros + 1e6, startMicros + 2e6, startMicros + 3e6}},
		} {
			for _, dies := range []string{"", "first", "second"} {
				for _, need := range []queuemodel.Item{{Within: 25e5}, {Most: 2}, {ID: "a", Patience: 25e5, Latest: 25e5}, {Within: 25e5, Flow: &queuemodel.Flow{Name: "a", Weight: 1}}} {
					t.Run(fmt.Sprintf("%s/%s dies/%v", kind, dies, need), func(t *testing.T) {
						client := server.Client(t)
						s, who, limits := backlog(t, client, limit, 0)
						ask := func(process string, count int, item queuemodel.Item) queuemodel.Answer {
							who.Process, item.Count, item.Parts = process, count, []queuemodel.Part{{Cost: 1}}
							who.Serial++
							item.Number = who.Serial
							_, answers, err := s.Ask(who, limits, []queuemodel.Item{item})
							require.NoError(t, err)
							return answers[0]
						}
						require.Equal(t, 1, ask("third", 1, queuemodel.Item{}).Status)
						require.Equal(t, 0, ask("first", 1, queuemodel.Item{Flow: need.Flow}).Status)
						require.Equal(t, 0, ask("second", 1, queuemodel.Item{Flow: need.Flow}).Status)
						want := 4
						if need.Most > 0 {
							want = 5
						}
						require.Equal(t, want, ask("third", 1, need).Status)
						if dies != "" {
							require.NoError(t, client.ZAdd(t.Context(), s.keys[3], redis.Z{Score: -who.Now, Member: dies}).Err())
							want = 0
						}
						require.Equal(t, want, ask("third", 1, need).Status)
					})
				}
			}
		}
	})
}
