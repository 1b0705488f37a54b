package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mistakes are mistakes that somebody could make in the scripts. Each names the law that it breaks in a
// world. The first four were in the scripts once.
var mistakes = []struct {
	what, world, law string
	from, to         string
	blind            bool // no process checks who holds slots
}{
	{what: "the clock of a first ask is not looked at, so a late copy of it takes a slot that is in use", world: "slots", law: "safe",
		from: "brings = reach, clock = tonumber(clock),", to: "brings = reach, clock = known == '' and 0 or tonumber(clock),"},
	{what: "nobody lets a slot go that a late copy takes when its call is done", world: "slots", law: "alive", blind: true},
	{what: "a repeated ask is told another tag than its place has", world: "slots", law: "alive",
		from: "p.tag = tonumber(p.placed or nil) or p.tag", to: ""},
	{what: "a process that asks long after a loss of data closes the slots to all", world: "slots3", law: "alive",
		from: "local from = unknown and at or min(at, l.epoch + way)", to: "local from = at"},

	{what: "the common path spends nothing", world: "calm", law: "safe", from: "part = part + count * cost * interval", to: "part = part"},
	{what: "a turn may be used for too long", world: "calm", law: "safe", from: "l.free + l.part + (l.b - cost) * l.a", to: "l.free + l.part + l.b * l.a"},
	{what: "newcomers overtake", world: "gone", law: "in order", from: "if not tag then return huge end", to: "if not tag then return at end"},
	{what: "a place that is left stays", world: "calm", law: "over", from: "if l.card > 0 and erase('ZREM', l.places, place) == 1 then", to: "if false then"},
	{what: "turns go back twice", world: "lost", law: "safe", from: "ask, size = stays > 0 and format(", to: "ask, size = ask or format("},
	{what: "all come at once after a pause", world: "pause", law: "safe", from: "advance(l, -min(l.held, l.paused - now))", to: "advance(l, -l.held)"},
	{what: "what a pause has taken goes back", world: "pause", law: "safe", from: "    l.part = free - l.free\n    l.last = ''", to: "    l.part = free - l.free"},
	{what: "turns go back to a slower limit", world: "set", law: "safe", from: "  if a > l.a then l.last = '' end\n  if l.low", to: "  if l.low"},
	{what: "all that was not used goes back", world: "settle", law: "safe", from: "-min(-micros, k and l.low[k].micros or huge)", to: "micros"},
	{what: "another server's data is believed", world: "fault", law: "safe", from: "local other = run ~= '' and l.run ~= '' and l.run ~= run", to: "local other = false"},
	{what: "a clock that jumped fills the buckets", world: "fault", law: "safe", from: "return l.clock > 0 and ahead > STEP and ahead or 0", to: "return 0"},
	{what: "a clock that went back makes all wait", world: "dead", law: "alive", from: "if l.seen > now then return now - (l.brought", to: "if l.seen > now then return 0 * (l.brought"},
	{what: "slots are given at once after a loss", world: "slots3", law: "safe", from: "l.till = max(l.till, ceil(from + UNSURE))", to: ""},
	{what: "slots of the living go", world: "slots", law: "safe", from: "if beat and beat < 0 or not beat and", to: "if beat or"},
	{what: "a window's quota is one too many", world: "quota", law: "safe", from: "(l.used[k] or 0) + cost <= l.a and", to: "(l.used[k] or 0) + cost <= l.a + 1 and"},
	{what: "a rolling window is too short", world: "rolling", law: "safe", from: "moment + l.offset + l.b or 0)", to: "moment + l.offset + l.b / 2 or 0)"},
	{what: "a warming call does not wait for those before it to be paid for", world: "warming", law: "safe", from: "function warming.next(l, _, at) return max(at, l.free + l.part) end", to: "function warming.next(l, _, at) return at end"},
	{what: "a booking outlives its turn", world: "bookings", law: "over", from: "drop(l, id, p.cost)\n  if l.bookings == 0", to: "if l.bookings == 0"},
	{what: "a turn is given for after the deadline", world: "deadlines", law: "in order", from: "if item.within then last = min(last, at + item.within) end", to: ""},
	{what: "a call that misses its deadline has a place", world: "deadlines", law: "alive", from: "local most = item.id and item.latest or item.within", to: "local most = item.id and item.latest"},
}

// Mistakes that are planted in the scripts are found, each within the depth of the gate.
func TestMistakesAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			c, known := worldOf(m.world)
			require.True(t, known)
			c.Blind = m.blind
			x := newExplorer(c, mistake{m.from, m.to})
			r := x.explore(c.Depth, 0, 0, nil)
			require.True(t, x.planted || m.blind, "no script has %q any more: plant the mistake anew", m.from)
			require.NotNil(t, r.Broken, "not found in %d states", r.States)
			lines, _ := x.transcript(r.Path, r.Alive)
			require.Equal(t, m.law, r.Broken.Law, "%v\n%s", r.Broken, strings.Join(lines, "\n"))
			t.Logf("%s, %d actions, %d states, %.1f s: %v", m.world, len(r.Path), r.States, r.Took.Seconds(), r.Broken)
		})
	}
}
