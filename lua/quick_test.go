package lua

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/model"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// odd are values that nobody should find in a state, or say.
var odd = []string{"", "x", "-1", "0.5", "nan", "-nan", "inf", "-inf", "1e300", "-1e300", "9007199254740993", "1 ", "0x10", "1e3"}

// TestQuickOfOddStates shows that quick leaves a state alone in which it meets
// something odd, or does what the model does of which a take finds nothing wrong.
func TestQuickOfOddStates(t *testing.T) {
	script := trueSources().driver()
	limit := model.Limit{IntervalMicros: 2e6, Burst: 5}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		p := &performer{t: t, stage: newStage(t, patient(t, server), script), limit: limit, foreign: true}
		ctx := context.Background()
		known := model.Caller{Member: "a", Epoch: startMicros, SeenMicros: startMicros, ClockMicros: startMicros, Serial: 2, LastSerial: 1, Live: 1}
		args := quickArgs(limit, known, model.Row{Permits: 1, SlackMicros: 1e9, Extra: 1, LastingMicros: 1e5})
		// try makes a call on a plain state that was changed, and reports whether it
		// gave something.
		try := func(args []string, change ...any) bool {
			p.run("lose", nil)
			p.run("take", takeArgs(limit, model.Caller{Member: "a", Serial: 1, ReachMicros: -model.LongestMicros}, 0,
				[]model.Request{{Cost: 1, MaxWaitMicros: -1, ID: "now"}}))
			if len(change) > 0 {
				require.NoError(t, p.stage.client.HSet(ctx, p.stage.keys[0], change...).Err())
			}
			given, err := parseGiven(p.run("quick", args), 1)
			require.NoError(t, err, "%v %v", args, change)
			if given[0].Before < 0 {
				require.Equal(t, p.before, p.contents(), "%v %v", args, change)
			}
			return given[0].Before >= 0
		}
		require.True(t, try(args))

		p.now = 500 * time.Millisecond
		for _, value := range odd {
			for _, field := range []string{"plain", "m:a", "seenMicros"} {
				require.False(t, try(args, field, value), "%s %q", field, value)
			}
			for _, field := range []string{"tail", "anchor", "anchorMicros", "idle"} {
				gave := try(args, field, value)
				_, err := parseReply(p.run("take", takeArgs(limit, model.Nobody, 1e15, []model.Request{{Cost: 1, MaxWaitMicros: -1, ID: "x"}})))
				if err != nil {
					require.ErrorContains(t, err, "BADSTATE "+field)
					require.False(t, gave, "%s %q: %v", field, value, err)
				}
			}
		}
		require.False(t, try(args, "tail", "0.5", "anchor", "0.5"), "together they are whole")
		require.False(t, try(args, "idle", "9007199254740991", "anchorMicros", "0"))
		require.False(t, try(args, "tail", "9007199254740991"))
		_, err := parseReply(p.run("take", takeArgs(limit, model.Nobody, 1e15, []model.Request{{Cost: 1, MaxWaitMicros: -1, ID: "x"}})))
		require.NoError(t, err, "the keys would expire later than Redis can say")

		// Arguments of one limit: 4 are shared, then line, member, known, serial,
		// permits, slack, extra.
		for i, name := range map[int]string{4: "line", 5: "member", 6: "known", 7: "serial", 8: "permits", 10: "extra"} {
			for _, value := range append(odd, "0", strings.Repeat("m", 65)) {
				changed := append([]string(nil), args...)
				changed[i] = value
				switch {
				case name == "permits" && (value == "0x10" || value == "1e3" || value == "1 ") ||
					name == "extra" && (value == "0" || value == "0x10" || value == "1e3" || value == "1 "):
					try(changed) // numbers, but miniredis does not know all of them
					if state, err := p.stage.client.HGet(ctx, p.stage.keys[0], "m:a").Result(); true {
						require.NoError(t, err)
						require.Regexp(t, `^\d+ \d+ 1=\d+;$`, state)
					}
				default:
					require.False(t, try(changed), "%s %q", name, value)
				}
			}
		}
		for _, line := range []string{strconv.Itoa(startMicros), fmt.Sprintf("%d 2", startMicros), fmt.Sprintf("%d 1 ", startMicros)} {
			changed := append([]string(nil), args...)
			changed[4] = line
			require.False(t, try(changed), "line %q", line)
		}
		for _, slack := range []string{"", "x", "nan", "-inf", "-1e300"} {
			changed := append([]string(nil), args...)
			changed[9] = slack
			require.False(t, try(changed), "slack %q", slack)
		}
		require.NoError(t, p.stage.clear())
	})
}

// TestQuickOnTheServersClock runs it as users get it, for several limits.
func TestQuickOnTheServersClock(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := context.Background()
		client := patient(t, server)
		prefix := redistest.Prefix(t)
		var states []string
		hour := time.Hour.Microseconds()
		args := []any{hour, 3, 0, 0}
		for k := range 3 {
			keys := Keys(prefix, "n", fmt.Sprint("key-", k))
			states = append(states, keys[0])
			took, err := Take.Run(ctx, client, keys, hour, 3, -3*hour, 0, 0, 0, "me", 7, 0, 1, -1, "a", 0).Int64Slice()
			require.NoError(t, err)
			require.Equal(t, int64(1), took[6], "plain")
			args = append(args, fmt.Sprintf("%d %d", took[0], took[3]), "me", fmt.Sprintf("%d 7 ", took[1]), 8, 1, hour)
			args[2] = took[1]
		}
		require.NoError(t, client.Del(ctx, states[1]).Err())
		reply, err := Quick.Run(ctx, client, states, args...).Int64Slice()
		require.NoError(t, err)
		require.Equal(t, []int64{1, -1, 1}, []int64{reply[1], reply[5], reply[9]}, "before")
		require.InDelta(t, -2*hour, reply[2], 1e9)
		require.Equal(t, []int64{1, 0, 1}, []int64{reply[4], reply[8], reply[12]}, "given")
		left, err := client.PTTL(ctx, states[0]).Result()
		require.NoError(t, err)
		require.InDelta(t, 2*time.Hour+time.Second, left, float64(time.Minute), "until the bucket is full")
		n, err := client.Exists(ctx, states[1]).Result()
		require.NoError(t, err)
		require.Zero(t, n)

		err = Quick.Run(ctx, client, states, hour, 3, "x", 0).Err()
		require.ErrorContains(t, err, `BADARG clockMicros must be a number of at least 0, got "x"`)
		require.NoError(t, client.Del(ctx, states...).Err())
	})
}

// TestQuickOnFullRedis shows that a Redis that has no memory left refuses it as a
// whole.
func TestQuickOnFullRedis(t *testing.T) {
	server := redistest.Local(t, "--maxmemory-policy", "noeviction")
	f := &fullRedis{t: t, client: patient(t, server), keys: Keys(redistest.Prefix(t), "n", ""), scripts: map[string]*redis.Script{"take": Take}}
	ctx := context.Background()
	took, err := Take.Run(ctx, f.client, f.keys, hour, 2, -hour, 0, 0, 0, "a", 1, 0, 1, -1, "now", 0).Int64Slice()
	require.NoError(t, err)
	before := f.contents()
	quick := func() error {
		return Quick.Run(ctx, f.client, f.keys[:1], hour, 2, took[1], 0, fmt.Sprintf("%d 1", took[0]), "a", fmt.Sprintf("%d 1 ", took[1]), 2, 1, 2*hour).Err()
	}
	f.full(true)
	err = quick()
	f.full(false)
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, before, f.contents())
	require.NoError(t, quick())
	require.NotEqual(t, before, f.contents())
}
