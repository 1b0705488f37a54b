package lua

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

// severalSeeds are n seeds, from FLEETPACE_SEVERAL_SEED on, and before them, unless that is
// set, those of histories in which calls were refused once: lines with a burst of 1 and
// different intervals found no moment between the free permits of both that suited both.
func severalSeeds(n uint64) []uint64 {
	first, err := strconv.ParseUint(os.Getenv("FLEETPACE_SEVERAL_SEED"), 10, 64)
	var seeds []uint64
	if err != nil {
		seeds = []uint64{5656, 9609}
	}
	for i := range n {
		seeds = append(seeds, first+i)
	}
	return seeds
}

// Random histories of calls that need permits of several limits, of all kinds, some of
// which others use alone: a strict provider of each refuses none, and each call has its turn.
func TestSeveralHistories(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		n := uint64(40)
		if server.Real() {
			n = 200
		}
		if text := os.Getenv("FLEETPACE_SEVERAL_HISTORIES"); text != "" && server.Real() {
			var err error
			n, err = strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
		}
		client := patient(t, server)
		scripts := severalOf(line, several)
		calls, settled := 0, 0
		for _, seed := range severalSeeds(n) {
			h := newSeveralHistory(t, seed, scripts, client)
			h.play()
			if err := h.check(); err != nil {
				t.Errorf("seed %d: %v\n%s", seed, err, strings.Join(h.log, "\n"))
			}
			if t.Failed() && !testing.Verbose() {
				return
			}
			for _, m := range h.limits {
				calls += len(m.calls)
				client.Del(t.Context(), m.keys...)
			}
			if h.settles {
				settled++
			}
		}
		t.Logf("%d histories, %d with costs that were settled, %d calls under a limit", len(severalSeeds(n)), settled, calls)
	})
}

// A table has limits by name, and calls of cost 1 that ask it for turns.
type table struct {
	testing.TB
	client *redis.Client
	prefix string
	limits map[string]*meter
}

// turn is the moment at which a call that asks at another is let through, both in micros.
func (b table) turn(at int64, id string, names ...string) int64 {
	b.Helper()
	const begin = 1_700_000_000_000_000
	var keys []string
	args := []any{begin + at, int64(1e7), -1, id}
	for _, name := range names {
		m := b.limits[name]
		own := m.args(begin + at)
		keys = append(keys, Keys(b.prefix, "table", name)...)
		args = append(append(args, m.kind, 1, -1, 0, len(own)), own...)
	}
	reply, err := severalOf(line, several).turn.Run(b.Context(), b.client, keys, args...).Slice()
	require.NoError(b, err)
	require.EqualValues(b, 1, reply[1], "the turn is final")
	return at + reply[2].(int64)
}

// A call whose moment is over gets one that is within a rolling limit, also when another
// limit lets it through only after the last of those who came behind it.
func TestRollingMomentIsOver(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		b := table{t, patient(t, server), redistest.Prefix(t), map[string]*meter{
			"a": {kind: "paced", interval: 2e6, permits: 1},
			"b": {kind: "paced", interval: 3.5e6, permits: 1},
			"c": {kind: "rolling", permits: 1, window: 1e6},
		}}
		require.EqualValues(t, 0, b.turn(0, "over", "a", "c"))
		require.EqualValues(t, 2e6, b.turn(0, "next", "a"))
		require.EqualValues(t, 0, b.turn(0, "other", "b"))
		require.EqualValues(t, 3.5e6, b.turn(0, "behind", "b", "c"))
		require.EqualValues(t, 4.5e6, b.turn(5e5, "over", "a", "c"), "a window after the one behind it")
	})
}

// Lines whose free permits are never due at the same moment meet between two dues of one of
// them. The call gets its turn again, and nobody else the permits of both dues.
func TestLinesMeet(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		b := table{t, patient(t, server), redistest.Prefix(t), map[string]*meter{
			"a": {kind: "paced", interval: 1e6, permits: 1},
			"b": {kind: "paced", interval: 7e5, permits: 1},
			"c": {kind: "paced", interval: 5e6, permits: 1},
		}}
		require.EqualValues(t, 0, b.turn(0, "first", "c"))
		require.EqualValues(t, 5e6, b.turn(0, "late", "a", "b", "c"), "before it are free permits: of a from 0, of b from 1e5 on")
		require.EqualValues(t, 1e5, b.turn(0, "meets", "a", "b"))
		require.EqualValues(t, 1e5, b.turn(5e4, "meets", "a", "b"), "the same again")
		require.EqualValues(t, 2e6, b.turn(5e4, "next", "a"))
		require.EqualValues(t, 8e5, b.turn(5e4, "next", "b"))
	})
}

// Bugs planted in the scripts, each of which the histories find.
func TestSeveralHistoriesFindBugs(t *testing.T) {
	server := redistest.Mini(t)
	for name, bug := range map[string]struct {
		from, to string
		seed     uint64 // from which on they are played
	}{
		"all that was not used comes back":   {"permits = math.floor(math.min(permits, burst - highest))", "permits = math.floor(permits)", 160},
		"permits that overflowed are used":   {"return cost + math.max(s.floor, s.anchor + start)", "return cost + s.floor", 0},
		"a block is used twice":              {"    redis.call('ZREM', FREE, c.member)\n    local before", "    local before", 0},
		"a number is used when it is gone":   {"return { e = e, how = 'free', member = head[i], last = last, size = size, cost = cost }", "return { e = cost > l.cost and e - 1 or e, how = 'free', member = head[i], last = last, size = size }", 5650},
		"windows of a quota are not told":    {"if before + l.cost <= left then return from end", "if true then return from end", 0},
		"what left the window too early":     {"at = math.max(at, tonumber(head[i + 1]) + l.window)", "at = math.max(at, tonumber(head[i + 1]) + l.window * 0.9)", 0},
		"who leaves is refunded when warm":   {"if at == l.state.lastMicros then l.next", "if true then l.next", 0},
		"a call is let through behind":       {"    l.next = l.next + cost\n", "    l.next = l.next + cost * 0.8\n", 0},
		"the turn is that of the first only": {"if t > at then at, holder = t, i end", "if t > at and i == 1 then at, holder = t, i end", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, 1, strings.Count(line+several+turn, bug.from), bug.from)
			text := strings.Replace(line+"--[[]]"+several+"--[[]]"+turn, bug.from, bug.to, 1)
			parts := strings.Split(text, "--[[]]")
			scripts := severalOf(parts[0], parts[1])
			scripts.turn = onClock(parts[0] + parts[1] + parts[2])
			client := patient(t, server)
			for seed := bug.seed; seed < bug.seed+100; seed++ {
				h := newSeveralHistory(t, seed, scripts, client)
				h.play()
				if err := h.check(); err != nil {
					t.Logf("found after %d histories: %v", seed-bug.seed+1, err)
					return
				}
				for _, m := range h.limits {
					client.Del(t.Context(), m.keys...)
				}
			}
			t.Error("was not found")
		})
	}
}
