package world

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// planted are mistakes that somebody could make in the scripts: a piece becomes another. Each names the
// law that it breaks, and in which history: so many are drawn until it is found.
var planted = []struct {
	what, from, to string
	law            string
	histories      uint64
}{
	{"the common path spends nothing", "part = part + count * cost * interval", "part = part", "safe", 11},
	{"a call pays for half of its permits", "advance(l, cost * l.a)\nend\n\nfunction paced.left", "advance(l, cost * l.a / 2)\nend\n\nfunction paced.left", "safe", 1},
	{"a call pays twice", "advance(l, cost * l.a)\nend\n\nfunction paced.left", "advance(l, cost * l.a * 2)\nend\n\nfunction paced.left", "used", 11},
	{"a bucket holds one permit too many", "return at - l.b * l.a end", "return at - (l.b + 1) * l.a end", "safe", 11},
	{"a window's quota is one too many", "(l.used[k] or 0) + cost <= l.a and", "(l.used[k] or 0) + cost <= l.a + 1 and", "safe", 97},
	{"the next window's count is lost", "edge == l.after and l.usedAfter or", "", "safe", 118},
	{"a rolling window is too short", "moment + l.offset + l.b or 0)", "moment + l.offset + l.b / 2 or 0)", "safe", 27},
	{"a rolling window forgets too early", "if entry(text) > now - l.offset - l.b then break end", "if entry(text) > now - l.offset - l.b / 2 then break end", "safe", 63},
	{"newcomers overtake", "if not tag then return huge end", "if not tag then return at end", "order", 44},
	{"a clock that went back makes all wait", "if seen > now then return now - seen end", "if seen > now then return 0 end", "alive", 57},
	{"a clock that jumped fills the buckets", "return clock > 0 and ahead > STEP and ahead or 0", "return 0", "safe", 324},
	{"turns of others go back", "process .. ' ' .. serial ~= who", "process ~= match(who, '^%S+')", "safe", 12},
	{"a place that is left stays", "if l.card > 0 and erase('ZREM', l.places, place) == 1 then", "if false then", "clean", 4},
	{"all that was not used goes back", "-min(-micros, lowest(l.low, record))", "micros", "safe", 12},
	{"a turn may be used for too long", "l.free + l.part + (l.b - cost) * l.a", "l.free + l.part + 1e9", "safe", 752},
	{"a slot too many is given", "local over = l.used + before + cost - l.a", "local over = l.used + before + cost - l.a - 1", "safe", 6},
	{"a slot is never free again", "local since = release(l, who, l.clock)\n  if not since then return 0 end", "do return 0 end\n  local since = 0", "used", 6},
	{"slots of the living go", "if beat and beat < 0 or not beat and", "if beat or", "safe", 6},
	{"the reports of processes never expire", "call('HSET', reports, me, report) == 1 then call('PEXPIRE', reports, life) end", "call('HSET', reports, me, report) then end", "clean", 2},
}

// The test of the test: each planted mistake is found, by the law that it breaks.
func TestPlantedMistakesAreFound(t *testing.T) {
	for _, m := range planted {
		planted := false
		finds := func(p *plan) bool {
			return breaks(p, m.law, func(text string) string {
				planted = planted || strings.Contains(text, m.from)
				return strings.ReplaceAll(text, m.from, m.to)
			})
		}
		found := finds(draw(m.histories))
		if m.histories > histories { // TestHistories plays the others without a mistake
			require.False(t, breaks(draw(m.histories), m.law, nil), "history %d breaks a law without a mistake", m.histories)
		}
		require.True(t, planted, "%s: no script has the piece any more", m.what)
		if found {
			t.Logf("%-45s %-6s %d histories", m.what, m.law, m.histories)
			continue
		}
		for seed := uint64(1); seed <= histories && !found; seed++ {
			if found = finds(draw(seed)); found {
				t.Errorf("%s: history %d does not find it any more; history %d does", m.what, m.histories, seed)
			}
		}
		if !found {
			t.Errorf("nothing finds: %s", m.what)
		}
	}
}
