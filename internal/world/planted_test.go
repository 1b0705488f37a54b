package world

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// planted are mistakes that somebody could make in the scripts: a piece becomes another. Each names the law
// that it breaks, and where: a transcript, or the number of histories that are drawn until one finds it.
var planted = []struct {
	what, from, to string
	law            string
	in             any // the seed of a history, or the name of a transcript
}{
	{"the common path spends nothing", "part = part + count * cost * interval", "part = part", "safe", 11},
	{"a call pays for half of its permits", "advance(l, cost * l.a)\nend\n\nfunction paced.most", "advance(l, cost * l.a / 2)\nend\n\nfunction paced.most", "safe", 1},
	{"a call pays twice", "advance(l, cost * l.a)\nend\n\nfunction paced.most", "advance(l, cost * l.a * 2)\nend\n\nfunction paced.most", "used", 11},
	{"a bucket holds one permit too many", "return at - l.b * l.a end", "return at - (l.b + 1) * l.a end", "safe", "bookings-head-paced-3-1"},
	{"a window's quota is one too many", "(l.used[k] or 0) + cost <= l.a and", "(l.used[k] or 0) + cost <= l.a + 1 and", "safe", 97},
	{"the next window's count is lost", "edge == l.after and l.usedAfter or", "", "safe", 118},
	{"a rolling window is too short", "moment + l.offset + l.b or 0)", "moment + l.offset + l.b / 2 or 0)", "safe", 27},
	{"a rolling window forgets too early", "if entry(text) > now - l.offset - l.b then break end", "if entry(text) > now - l.offset - l.b / 2 then break end", "safe", "bookings-head-rolling-1-1"},
	{"newcomers overtake", "if not tag then return huge end", "if not tag then return at end", "order", 44},
	{"a clock that went back makes all wait", "if l.seen > now then return now - (l.brought", "if l.seen > now then return 0 * (l.brought", "alive", 57},
	{"a clock that jumped fills the buckets", "return l.clock > 0 and ahead > STEP and ahead or 0", "return 0", "safe", 324},
	{"turns of others go back", "one == who", "match(one, '^%S+') == match(who, '^%S+')", "safe", "quota-edge"},
	{"calls behind one that is too late keep their places", " and not parts[1].old then", " then", "clean", "missed-after-a-lost-reply"},
	{"a place that is left stays", "if l.card > 0 and erase('ZREM', l.places, place) == 1 then", "if false then", "clean", 4},
	{"all that was not used goes back", "-min(-micros, k and l.low[k].micros or huge)", "micros", "safe", 69},
	{"a turn may be used for too long", "l.free + l.part + (l.b - cost) * l.a", "l.free + l.part + 1e9", "safe", 191},
	{"a slot too many is given", "local over = l.used + before + cost - l.a", "local over = l.used + before + cost - l.a - 1", "safe", 6},
	{"a slot is never free again", "local since = release(l, who, l.clock)\n  if not since then return 0 end", "do return 0 end\n  local since = 0", "used", 6},
	{"slots of the living go", "if beat and beat < 0 or not beat and", "if beat or", "safe", 6},
	{"the reports of processes never expire", "call('HSET', reports, me, report) == 1 then call('PEXPIRE', reports, life) end", "call('HSET', reports, me, report) then end", "clean", 2},
	{"turns that are out are forgotten with the data", "if unknown then atLeast(l, min(now + AHEAD, l.free + l.part + (stepped or huge))) end\nend\n\n-- record", "end\n\n-- record", "safe", "flush"},
	{"lost data is a full bucket", "l.meter.remember(l, l.brings, other", "l.meter.remember(l, '', false and other", "safe", "failover-memory"},
	{"a limit whose keys have expired by a step of the clock is full", "if l.fresh and l.meter.refills and l.clock > 0 and now - l.clock > STEP then", "if false then", "safe", "clock-ahead-keys-expire"},
	{"a caller that is new hides a step of the clock", "l.blind and now - 0.5 or now", "now", "safe", "clock-ahead-resume-first"},
	{"a limit that is new on another server is full", " or l.fresh and moved", "", "safe", "lost-limits-nobody-listens"},
	{"another server's data is believed", "local other = run ~= '' and l.run ~= '' and l.run ~= run", "local other = false", "safe", "failover-memory"},
	{"a hard stop is probed by each call", "due <= now + every then goes = false end", "false then goes = false end", "safe", "stops-that-are-probed"},
	{"a served probe ends no hard stop", "stop == l.paused and match(l.reason, STOPPED)", "false", "expect", "stops-that-are-probed"},
	{"turns of a quota that are not due yet do not come back", "keep(all, false, LATER)", "keep(all, false, 0)", "used", "quota-paused-again-and-again"},
	{"the next head of a quota does not learn its window", "l.kind == 'q' and match(l.last, '^%S+ %S+') == asked", "false", "used", "quota-next-heads-told-late"},
	{"who waits is told that all bookings come back", "if item.id and not books then which", "if false then which", "used", "bookings-head-paced-1-1"},
}

// This tests the test: each planted mistake is found by the law that it breaks.
func TestPlantedMistakesAreFound(t *testing.T) {
	for _, m := range planted {
		planted := false
		finds := func(p *plan) bool {
			return breaks(p, m.law, func(text string) string {
				planted = planted || strings.Contains(text, m.from)
				return strings.ReplaceAll(text, m.from, m.to)
			})
		}
		found := finds(historyOf(t, m.in))
		if seed, drawn := m.in.(int); drawn && seed > histories { // the other tests play the remaining seeds without a mistake
			require.False(t, breaks(historyOf(t, m.in), m.law, nil), "history %d breaks a law without a mistake", m.in)
		}
		require.True(t, planted, "%s: no script has the piece any more", m.what)
		if found {
			t.Logf("%-45s %-6s in %v", m.what, m.law, m.in)
			continue
		}
		t.Errorf("%s: history %v does not find it any more", m.what, m.in)
		for _, in := range all(t) {
			if found = finds(historyOf(t, in)); found {
				t.Errorf("history %v does", in)
				break
			}
		}
	}
}

// all returns the histories that the gate plays without a mistake.
func all(t *testing.T) (all []any) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		all = append(all, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	for seed := range histories {
		all = append(all, seed+1)
	}
	return all
}

// historyOf returns the history of a seed or of a transcript.
func historyOf(t *testing.T, in any) *plan {
	t.Helper()
	if name, ok := in.(string); ok {
		return readTranscript(t, "testdata/"+name+".txt")
	}
	return draw(uint64(in.(int))) //nolint:forcetypeassert,gosec // it is a seed
}
