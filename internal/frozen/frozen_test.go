package frozen

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/lua"
)

// A limit that v0.2 has used continues after its processes have stopped: new ones read its state. All kinds.
func TestStatesOfV02Continue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		now := time.Now().UnixMicro()
		const minute = 60_000_000
		edges := fmt.Sprint(now-1_000_000, " ", now+minute, " ", now+2*minute, " ", now+3*minute)
		for _, limit := range [][]any{{"p", minute, 5, ""}, {"q", 5, 0, edges}, {"r", 5, minute, ""}, {"s", 5, 1, ""}, {"w", minute, 5 * minute, ""}} {
			kind := fmt.Sprint(limit[0])
			keys := lua.Keys(redistest.Prefix(t), "", "api", kind, "")
			asks := func(script *redis.Script, process string) (granted int) {
				for serial := 1; serial <= 10; serial++ {
					v, err := script.Run(t.Context(), client, keys, now, 0, 1000, 1000, 300_000, "", process, serial, "",
						limit[0], limit[1], limit[2], 0, "", 0, "", "", limit[3], 0,
						1, serial, 2, 1, 1, 1, "").Slice()
					require.NoError(t, err)
					require.Empty(t, v[4], "%s of %s", process, kind)
					if v[5] == int64(1) || v[7] == int64(1) {
						granted++
					}
					if process == "old" && granted == 3 {
						break
					}
				}
				return granted
			}
			most := map[string]int{"w": 1}[kind]
			if most == 0 {
				most = 5
			}
			old := asks(ask02, "old")
			require.Equal(t, min(3, most), old, kind)
			require.Equal(t, most-old, asks(lua.Ask, "new"), kind)
		}
	})
}

// The frozen scripts are whole: each runs, and says what it wants.
func TestFrozenScripts(t *testing.T) {
	client := redistest.Local(t).Client(t)
	require.Len(t, Texts, len(Current))
	for verb, text := range Texts {
		require.NotEqual(t, text, Current[verb])
		require.NoError(t, client.ScriptLoad(t.Context(), text).Err(), verb)
	}
}

// A process of the protocol hears what it understands.
func TestHears(t *testing.T) {
	for message, heard := range map[string]string{
		"dead process-1": "dead process-1", "limit 3 a key": "limit 3 a key", "protocol 4": "protocol 4", "other words": "", "news left 17": "",
		"news left,until:5,paused 17 a key": "news left,until:5,paused 17 a key",
		"news settled,cheaper:3 17 a key":   "news left,left 17 a key",
		"news room:p:2,room:2:p:3 17 a key": "news room:p:2 17 a key",
		"news paused:5 17 a key":            "",
		"news limit:0.5:0,overdue:p 17 key": "news limit:0.5:0,overdue:p 17 key",
		"told 17 left key":                  "",
	} {
		got, ok := Hears(message)
		if !ok {
			got = ""
		}
		require.Equal(t, heard, got, message)
	}
}

// While a plan of another kind is in force, the frozen scripts refuse the limit, and say why. They never misread its state.
// Once the plan has the kind of the keys again, they go on.
func TestPlansOfAnotherKindAreRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, frozenAsk := server.Client(t), redis.NewScript(Texts["ask"])
		now, version := time.Now().UnixMicro(), 1<<40
		const minute = 60_000_000
		edges := fmt.Sprint(now-1_000_000, " ", now+minute, " ", now+2*minute, " ", now+3*minute)
		limits := map[string][]any{"p": {"p", minute, 5, ""}, "w": {"w", minute, minute, ""}, "q": {"q", 5, 0, edges}, "r": {"r", 5, minute, ""}}
		for base := range limits {
			for other := range limits {
				keys := lua.Keys(redistest.Prefix(t), "", base+other, base, "")
				ask := func(script *redis.Script, form string, limit []any) (problem any) {
					version++
					v, err := script.Run(t.Context(), client, keys, now, 0, 1000, 1000, 300_000, "", "p", version, "",
						form, limit[1], limit[2], fmt.Sprint("+", version), "", 0, "", "", limit[3], 0,
						1, version, 2, 1, 1, 1, "").Slice()
					require.NoError(t, err)
					return v[4]
				}
				if other == base {
					continue
				}
				require.Empty(t, ask(frozenAsk, base, limits[base]))
				require.Empty(t, ask(lua.Ask, other+" -", limits[other]))
				require.Equal(t, "PROTOCOL 1003", ask(frozenAsk, base, limits[base]), "%s to %s", base, other)
				require.Empty(t, ask(lua.Ask, base, limits[base]))
				require.Empty(t, ask(frozenAsk, base, limits[base]), "%s to %s and back", base, other)
			}
		}
	})
}
