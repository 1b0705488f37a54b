package lua

import (
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// idle is a paced limit, which both scripts are asked for.
type idle struct {
	*testing.T
	client   redis.UniversalClient
	keys     []string
	a, b     string
	known    string
	version  int64
	serial   int
	way, now int64
	behind   int64 // the clock of the caller
}

func newIdle(t *testing.T, client redis.UniversalClient, prefix, a, b string) *idle {
	return &idle{T: t, client: client, keys: Keys(prefix, "", "api", "p", ""), a: a, b: b, way: 100, now: 1e15, behind: 1000}
}

// ask asks in full, and returns the answer.
func (l *idle) ask(count, cost int) (status, due int64) {
	reply, err := Ask.Run(l.Context(), l.client, l.keys, l.now, l.way, 250_000, 5000, 300_000, "", "me", l.serial, "",
		"p", l.a, l.b, 0, l.known, l.version, "", "", "", l.now-l.behind, count, l.serial, 2, 1, 1, cost, "").Slice()
	require.NoError(l, err)
	if text, _ := reply[3].(string); text != "" {
		l.known = text
	}
	l.version, _ = reply[1].(int64)
	status, _ = reply[5].(int64)
	due, _ = reply[6].(int64)
	return status, due
}

// take asks with script take, and returns the answer.
func (l *idle) take(count, cost int) (version, due int64) {
	reply, err := Take.Run(l.Context(), l.client, l.keys[:1], l.now, l.way, 250_000, "me", l.serial,
		1, l.a, l.b, count, cost, l.known, l.version, l.now-l.behind, "0").Int64Slice()
	require.NoError(l, err)
	require.Equal(l, l.now, reply[0])
	return reply[1], reply[2]
}

func (l *idle) state() map[string]string {
	state, err := l.client.HGetAll(l.Context(), l.keys[0]).Result()
	require.NoError(l, err)
	return state
}

// Scripts take and ask leave the same state behind, and give the same turns.
func TestTakeIsAskOfAnIdleLimit(t *testing.T) {
	client := still(t)
	for seed := range redistest.Budget[uint64](20, 8) {
		random := rand.New(rand.NewPCG(seed, 1))
		a := []string{"1000", "333.33333333333331", "1000000.5", "0.90000000000000002"}[seed%4]
		prefix := redistest.Prefix(t)
		one, other := newIdle(t, client, prefix+":1", a, "20"), newIdle(t, client, prefix+":2", a, "20")
		given, refused := 0, 0
		for range 200 {
			count, cost := 1+random.IntN(3), 1+random.IntN(4)
			status, due := one.ask(count, cost)
			version, last := int64(-1), int64(0)
			if other.known != "" {
				version, last = other.take(count, cost)
			}
			if version < 0 {
				state := other.state()
				if other.known != "" {
					require.NotEqual(t, int64(1), status, "ask gives turns that take does not")
					refused++
				}
				require.Equal(t, state, other.state())
				other.ask(count, cost)
			} else {
				require.Equal(t, []int64{1, due}, []int64{status, last})
				other.version = version
				given++
			}
			require.Equal(t, one.state(), other.state())
			one.serial, other.serial = one.serial+1, other.serial+1
			step := random.Int64N(int64(10_000 * (1 + 100*(seed%4/2))))
			one.now, other.now = one.now+step, other.now+step
		}
		require.Positive(t, given)
		t.Logf("%s µs per permit: %d given, %d refused", a, given, refused)
	}
}

// What script take cannot answer, it leaves as it is.
func TestTakeLeavesTheRest(t *testing.T) {
	client := still(t)
	for name, spoil := range map[string]func(*idle){
		"another text":         func(l *idle) { l.known += "0" },
		"an older state":       func(l *idle) { l.version++ },
		"a clock that is back": func(l *idle) { l.now -= 5_000_000 },
		"a clock that stepped": func(l *idle) {
			require.NoError(l, l.client.HSet(l.Context(), l.keys[0], "seenMicros", l.now-5_000_000).Err())
			l.behind = 5_000_000
		},
		"no permits": func(l *idle) { l.take(20, 1); l.version++ },
		"no state":   func(l *idle) { require.NoError(l, l.client.Del(l.Context(), l.keys[0]).Err()) },
		"a key of another type": func(l *idle) {
			require.NoError(l, l.client.Del(l.Context(), l.keys[0]).Err())
			require.NoError(l, l.client.Set(l.Context(), l.keys[0], "text", 0).Err())
		},
		"a corrupted state": func(l *idle) {
			require.NoError(l, l.client.HSet(l.Context(), l.keys[0], "nextFreeTicketMicros", "soon").Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newIdle(t, client, redistest.Prefix(t), "100000", "20")
			l.ask(1, 1)
			spoil(l)
			before, _ := client.Dump(t.Context(), l.keys[0]).Result()
			version, _ := l.take(1, 1)
			require.EqualValues(t, -1, version)
			after, _ := client.Dump(t.Context(), l.keys[0]).Result()
			require.Equal(t, before, after)
		})
	}
}
