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

// A bucket is emptied, by a pause or as its data was lost. What was spent before is part of that, and
// nothing of it goes back: neither as an ask is repeated whose reply was lost, nor as a turn is given back.
func TestAnEmptiedBucketGivesNothingBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		for _, limit := range []queuemodel.Limit{{Kind: "p", A: 1e5, B: 1}, {Kind: "p", A: 1e5, B: 3}, {Kind: "w", A: 1e5, B: 4e5}} {
			for _, event := range []string{"pause", "another server", "memory of more"} {
				waits := map[string]float64{}
				for _, how := range []string{"not", "repeat", "turn"} {
					s, who, limits := backlog(t, client, limit, 0)
					ask := func() queuemodel.Answer {
						_, answers, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: who.Serial, Parts: []queuemodel.Part{{Cost: 1}}}})
						require.NoError(t, err)
						return answers[0]
					}
					for range int(limit.B)%10 + 1 { // the last one is lost, or not used
						who.Serial++
						ask()
					}
					spent := who.Process + " " + whole(float64(who.Serial))
					switch event {
					case "pause":
						_, _, err := s.Pause(who, limits, 350000, 0)
						require.NoError(t, err)
					case "another server":
						who.Run = "another"
					case "memory of more":
						limits[0].Known, limits[0].Version, limits[0].Reach = "1600000000000000 run "+limit.Kind+" 1 1", 1, []float64{900000, 0}[:map[string]int{"p": 1, "w": 2}[limit.Kind]]
					}
					switch how {
					case "repeat":
						limits[0].Back = spent
					case "turn":
						_, _, err := s.Leave(who, limits, 0, "turn", spent, 0, nil)
						require.NoError(t, err)
						limits[0].Known = ""
					}
					who.Serial++
					waits[how] = ask().Wait
				}
				require.Greater(t, waits["not"], 300000.0, "%v, %s", limit, event)
				require.GreaterOrEqual(t, waits["repeat"], waits["not"], "%v, %s", limit, event)
				require.GreaterOrEqual(t, waits["turn"], waits["not"], "%v, %s", limit, event)
			}
		}
	})
}

// One ask spends permits in the next window of a quota, and then in this one. Whether others spend permits after that
// or not, what it gives back comes back in this window: a call of the next window may use all others.
func TestPermitsOfAWindowComeBackThere(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for others := range 3 {
			const window = 60e6
			limit := queuemodel.Limit{Kind: "q", A: 100, Edges: []float64{startMicros - window + 150e3, startMicros + 150e3, startMicros + window, startMicros + 2*window}}
			s, who, limits := backlog(t, server.Client(t), limit, 0)
			ask := func(process string, costs ...float64) (turns int) {
				var items []queuemodel.Item
				who.Serial++
				for k, cost := range costs {
					items = append(items, queuemodel.Item{Count: 1, Number: 100*who.Serial + k, Now: len(costs) == 1 && process == "counts", Parts: []queuemodel.Part{{Cost: cost}}})
				}
				asker := who
				asker.Process = process
				_, answers, err := s.Ask(asker, limits, items)
				require.NoError(t, err)
				for _, a := range answers {
					if a.Status == 1 {
						turns++
					}
				}
				return turns
			}
			require.Equal(t, 1, ask("first", 55))
			require.Equal(t, 1, ask("first", 40))
			require.Equal(t, 2, ask("p", 10, 5))
			spent := "p " + whole(float64(who.Serial))
			who.Now += 10e3
			for range others {
				require.Equal(t, 1, ask("q", 1), "in the next window")
			}
			_, _, err := s.Leave(who, limits, 0, "turn", spent, 10, nil)
			require.NoError(t, err)

			who.Now = startMicros + 200e3
			free := 0
			for ask("counts", 1) == 1 {
				free++
			}
			require.Equal(t, 100-10-others, free, "others: %d", others)
		}
	})
}
