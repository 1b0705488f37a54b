package lua

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// tells sends one heartbeat of a process that uses some names of a group, and returns what it
// replies before the names, and how many of them it has taken in.
func tells(t *testing.T, client *redis.Client, prefix, process string, now float64, names []string) (reply []any, taken int) {
	t.Helper()
	keys := BeatKeys(prefix, "g", "")[:2]
	args := []any{whole(now), process, 3 * second, "", 1, Protocol}
	for _, name := range names {
		keys = append(keys, BeatKeys(prefix, "g", name)[2:]...)
		args = append(args, "p", 10, "10/s", `{"pid":1}`)
	}
	v, err := Beat.Run(t.Context(), client, keys, args...).Slice()
	require.NoError(t, err)
	require.Zero(t, (len(v)-5)%4)
	return v, (len(v) - 5) / 4
}

// One message says for all names that the process lives: its slots are nobody else's, and a process
// that is silent is dead everywhere, whatever names the others use. The processes beat in any
// order, under names that they draw.
func TestBeatCountsForAllNames(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, prefix := server.Client(t), redistest.Prefix(t)
		for seed := range uint64(10) {
			random := rand.New(rand.NewPCG(seed, 15))
			group := fmt.Sprint(prefix, seed)
			names := make([]string, 2+random.IntN(8))
			for i := range names {
				names[i] = fmt.Sprint("name-", i)
			}
			some := func() []string {
				drawn := slices.Clone(names)
				random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
				return drawn[:random.IntN(len(names)+1)]
			}
			now := startMicros
			tells(t, client, group, "silent", now, names)
			for range 20 { // for 4 to 8 s
				for _, process := range []string{"a", "b"} {
					now += (0.1 + 0.1*random.Float64()) * second
					tells(t, client, group, process, now, some())
				}
			}
			tells(t, client, group, "a", now, names)
			for _, name := range names {
				limits := BeatKeys(group, "g", name)[2]
				for _, of := range []string{"p", "s"} {
					processes := Keys(group, "g", name, of, "key")[3]
					require.Positive(t, client.ZScore(t.Context(), processes, "a").Val(), "seed %d", seed)
					require.Positive(t, client.ZScore(t.Context(), processes, "b").Val(), "seed %d: %s", seed, name)
					require.Negative(t, client.ZScore(t.Context(), processes, "silent").Val(), "seed %d", seed)
				}
				require.Contains(t, client.HGet(t.Context(), limits, "silent").Val(), "- ", "seed %d: its limit does not count", seed)
			}
		}
	})
}

// The work of one message is bounded, however many names it has and however many processes use
// them, of which some have just died: the names that it has not taken in are sent again.
func TestWorkOfAHeartbeatIsBounded(t *testing.T) {
	client := redistest.Local(t, "--hz", "20").Client(t)
	require.NoError(t, Beat.Load(t.Context(), client).Err())
	const most, mostCommands = 96, 96*3 + 64 // of 64 processes that have died
	for _, processes := range []int{1, 30, 200} {
		prefix, now := redistest.Prefix(t), startMicros
		names := make([]string, most)
		for i := range names {
			names[i] = fmt.Sprint("name-", i)
		}
		all := func(process string) (messages, sent int) {
			for left := names; len(left) > 0; messages++ {
				taken := 0
				sent = max(sent, commands(t, client, func() error {
					_, taken = tells(t, client, prefix, process, now, left)
					return nil
				}))
				require.Positive(t, taken)
				left = left[taken:]
			}
			return messages, sent
		}
		for p := range processes {
			all(fmt.Sprint("process-", p))
		}
		for range 4 { // the others fall silent
			now += second
			tells(t, client, prefix, "process-0", now, nil)
		}
		for _, what := range []string{"after deaths", "and again"} {
			messages, sent := all("process-0")
			t.Logf("MEASURE %d processes, %s: %d names are %d messages of at most %d commands", processes, what, most, messages, sent)
			require.LessOrEqual(t, sent, mostCommands, "%d processes", processes)
		}
	}
}
