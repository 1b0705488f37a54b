package lua

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

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
		for seed := range n {
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
		t.Logf("%d histories, %d with costs that were settled, %d calls under a limit, none refused", n, settled, calls)
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
