package lua

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// backlog is a limit at which so many calls wait.
func backlog(t testing.TB, client *redis.Client, limit queuemodel.Limit, waiting int) (*server, queuemodel.Caller, []queuemodel.Limit) {
	t.Helper()
	s := &server{client: client, ctx: t.Context(), ask: Ask, keys: Keys(redistest.Prefix(t), "", "api", limit.Kind, "")}
	who := queuemodel.Caller{
		Now: startMicros, Way: 100, Horizon: 250000, Near: 5000, Grace: 300000, Run: "run", Process: "p", Serial: 1,
	}
	limits := []queuemodel.Limit{limit}
	const alike, most = 16, 100 // calls of an item that are answered, and items of an ask
	for first := 0; first < waiting; {
		var items []queuemodel.Item
		for ; first < waiting && len(items) < most; first += alike {
			items = append(items, queuemodel.Item{Count: min(alike, waiting-first), Number: first, Parts: []queuemodel.Part{{Cost: 1}}})
		}
		_, _, err := s.Ask(who, limits, items)
		require.NoError(t, err)
	}
	if waiting > 0 {
		there, err := client.ZCard(t.Context(), s.keys[1]).Result()
		require.NoError(t, err)
		require.Greater(t, there, int64(waiting/3), "the first ones have turns")
	}
	return s, who, limits
}

var calls = regexp.MustCompile(`calls=(\d+)`)

// commands is how many commands a call makes Redis carry out.
func commands(t testing.TB, client *redis.Client, call func() error) (sum int) {
	t.Helper()
	require.NoError(t, client.ConfigResetStat(t.Context()).Err())
	require.NoError(t, call())
	info, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for _, line := range strings.Split(info, "\n") {
		if found := calls.FindStringSubmatch(line); found != nil && !strings.Contains(line, "_config") && !strings.Contains(line, "_info") {
			n, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			sum += n
		}
	}
	return sum
}

// No script's work grows with how many calls wait.
func TestWorkDoesNotGrowWithTheQueue(t *testing.T) {
	client := redistest.Local(t, "--hz", "20").Client(t)
	for _, script := range []*redis.Script{Ask, Leave, Pause, Resume} {
		require.NoError(t, script.Load(t.Context(), client).Err())
	}
	for _, limit := range []queuemodel.Limit{
		{Kind: "p", A: 1e6, B: 5}, {Kind: "r", A: 1000, B: 86400e6}, {Kind: "w", A: 1e6, B: 1e7},
		{Kind: "q", A: 1000, B: 1000, Edges: []float64{startMicros - 1e9, startMicros + 1e9, startMicros + 3e9, startMicros + 5e9}},
	} {
		of := func(waiting int) map[string]int {
			s, who, limits := backlog(t, client, limit, waiting)
			who.Now, who.Serial = who.Now+1000, 2
			one := func(number int, tag float64) func() error {
				return func() error {
					_, _, err := s.Ask(who, limits, []queuemodel.Item{{Count: 1, Number: number, Parts: []queuemodel.Part{{Cost: 1, Tag: tag}}}})
					return err
				}
			}
			return map[string]int{
				"a new call":       commands(t, client, one(waiting+1, 0)),
				"one that waits":   commands(t, client, one(waiting-1, startMicros+100+float64(waiting-1))),
				"a place is left":  commands(t, client, func() error { _, _, err := s.Leave(who, limits, 0, "place", "2005", 1, nil); return err }),
				"a pause":          commands(t, client, func() error { _, _, err := s.Pause(who, limits, 1e6, 0); return err }),
				"the end of it":    commands(t, client, func() error { _, err := s.Resume(who, limits); return err }),
				"a turn goes back": commands(t, client, func() error { _, _, err := s.Leave(who, limits, 0, "turn", "p 1", 0, nil); return err }),
			}
		}
		require.Equal(t, of(3000), of(50000), limit.Kind)
	}
}

// Flows that came and went cost nothing, also where the queue is never empty: 2,000 of them, or
// FLEETPACE_FLOWS.
func TestFlowsThatWent(t *testing.T) {
	rounds := 20
	if text := os.Getenv("FLEETPACE_FLOWS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		rounds = n / 100
	}
	client := redistest.Local(t, "--hz", "20").Client(t)
	s := &server{client: client, ctx: t.Context(), ask: Ask, keys: Keys(redistest.Prefix(t), "", "api", "p", "")}
	who := queuemodel.Caller{Now: startMicros, Horizon: 1000, Near: 1000, Grace: 300000, Run: "run", Process: "p", Serial: 1}
	limits := []queuemodel.Limit{{Kind: "p", A: 1000, B: 1}}
	ask := func(items ...queuemodel.Item) []queuemodel.Answer {
		who.Serial++
		_, answers, err := s.Ask(who, limits, items)
		require.NoError(t, err)
		return answers
	}
	// One that is booked keeps the shares from ending.
	require.Equal(t, 3, ask(queuemodel.Item{Count: 1, Number: 1, ID: "later", Patience: -1, Latest: 9e15, Parts: []queuemodel.Part{{Cost: 1}}})[0].Status)
	most := int64(0)
	for round := range rounds {
		items := make([]queuemodel.Item, 100)
		for i := range items {
			items[i] = queuemodel.Item{Count: 1, Number: 1000*round + i + 2, Parts: []queuemodel.Part{{Cost: 1}},
				Flow: &queuemodel.Flow{Name: "tenant " + strconv.Itoa(100*round+i), Weight: 1}}
		}
		for len(items) > 0 {
			var wait []queuemodel.Item
			for i, a := range ask(items...) {
				if a.Status == 0 {
					items[i].Parts[0].Tag = a.Tags[0]
					wait = append(wait, items[i])
				}
			}
			items, who.Now = wait, who.Now+50_000
		}
		there, err := client.ZCard(t.Context(), s.keys[5]).Result()
		require.NoError(t, err)
		most = max(most, there)
	}
	who.Now += 60e6
	ask(queuemodel.Item{Count: 1, Number: 0, Parts: []queuemodel.Part{{Cost: 1}}})
	bytes := int64(0)
	for _, key := range s.keys {
		if used, err := client.MemoryUsage(t.Context(), key, 0).Result(); err == nil {
			bytes += used
		}
	}
	t.Logf("MEASURE of %d flows at most %d are known at a time; a minute later all keys have %d bytes", 100*rounds, most, bytes)
	require.LessOrEqual(t, most, int64(1100), "a flow is known until others had as much as it")
}
