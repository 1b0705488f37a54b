package lua

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// The reply to an ask is lost that gave a call its place, and the ask is repeated, without the tag
// that its caller has not heard. The reply has the tag of the place, and the call has its turn
// when it is there.
func TestAPlaceWhoseReplyWasLost(t *testing.T) {
	flow := &queuemodel.Flow{Name: "a", Weight: 1}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		for _, limit := range []queuemodel.Limit{
			{Kind: "s", A: 1, B: 1}, {Kind: "p", A: 5e6, B: 1}, {Kind: "p", A: 1e6, B: 2}, {Kind: "r", A: 1, B: 5e6}, {Kind: "w", A: 2e6, B: 4e6},
		} {
			for _, of := range []*queuemodel.Flow{nil, flow} {
				for repeats := range 3 {
					for _, back := range []bool{true, false} {
						what := fmt.Sprintf("%s %v %v, flow %v, %d repeats, back %v", limit.Kind, limit.A, limit.B, of, repeats, back)
						s, who, limits := backlog(t, client, limit, 0)
						limits[0].Clock = startMicros
						ask := func(who queuemodel.Caller, number int, tag float64) queuemodel.Answer {
							_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: number, Flow: of, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
							require.NoError(t, err)
							return answers[0]
						}
						for n := range int(limit.B) { // until nothing is left
							if limit.Kind == "s" || limit.Kind == "r" || limit.Kind == "w" {
								n = 1
							}
							who.Serial++
							ask(who, n, 0)
							if limit.Kind != "p" {
								break
							}
						}
						mine := who
						mine.Process, mine.Serial = "q", 1
						waits := ask(mine, 1, 0)
						require.Equal(t, 0, waits.Status, what)
						due := mine.Now + waits.Wait
						for range repeats {
							mine.Now += 50000
							if back {
								limits[0].Back = "q 1"
							}
							limits[0].Clock = mine.Now
							waits = ask(mine, 1, 0)
							require.Equal(t, 0, waits.Status, what)
						}
						limits[0].Back = ""
						places := client.ZRangeWithScores(t.Context(), s.keys[1], 0, -1).Val()
						require.Equal(t, []float64{waits.Tags[0]}, scores(places), what)
						if limit.Kind == "s" {
							mine.Now += 1e6
							done := who
							done.Now = mine.Now
							limits[0].Clock = mine.Now
							name := &queuemodel.Flow{}
							if of != nil {
								name.Name = of.Name
							}
							_, left, err := s.Leave(done, limits, 0, "done", "1", 1, name)
							require.NoError(t, err)
							require.EqualValues(t, 1, left, what)
							due = mine.Now
						}
						mine.Now, mine.Serial, limits[0].Clock = due, 2, due
						require.Equal(t, 1, ask(mine, 1, waits.Tags[0]).Status, what)
					}
				}
			}
		}
	})
}

func scores(places []redis.Z) (scores []float64) {
	for _, p := range places {
		scores = append(scores, p.Score)
	}
	return scores
}

// A call comes forward in its flow, and the reply that says so is lost: it asks again with the tag
// that it knows, and has its turn when it is there.
func TestACallThatCameForwardWithoutHearing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s, who, limits := backlog(t, server.Client(t), queuemodel.Limit{Kind: "p", A: 5e6, B: 1, Clock: startMicros}, 0)
		flow := &queuemodel.Flow{Name: "a", Weight: 1}
		ask := func(number int, tag float64) queuemodel.Answer {
			who.Serial++
			_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: number, Flow: flow, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
			require.NoError(t, err)
			return answers[0]
		}
		ask(1, 0)
		ask(2, 0)
		waits := ask(3, 0)
		require.Equal(t, 0, waits.Status)
		_, _, err := s.Leave(who, limits, 0, "place", "2", 1, flow)
		require.NoError(t, err)
		who.Now += 1e6
		limits[0].Clock = who.Now
		lost := ask(3, waits.Tags[0])
		require.Less(t, lost.Tags[0], waits.Tags[0], "it has come forward")
		who.Now = startMicros + 5e6
		limits[0].Clock = who.Now
		require.Equal(t, 1, ask(3, waits.Tags[0]).Status)
	})
}
