package world

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mistakes are planted in the engine: a piece of a file becomes another. They were faults of the engine
// once, or are similar to such faults. The list planted has mistakes in the scripts.
var mistakes = []struct {
	what, file, from, to string
	law                  string // or the test of the engine that finds it
}{
	{"heartbeats are too rare, so a live process counts as dead", "heart", "every  = time.Second ", "every  = 6 * time.Second ", "used"},
	{"what another server has is all that was used", "heart", "if forgot || other && e.known {", "if forgot {", "safe"},
	{"nobody looks whether slots are held in vain", "heart", "	e.auditSlots(now)\n", "", "used"},
	{"calls of another kind are made", "kinds", "	if err := e.otherKind(&l.need); err != nil {\n		l.failAll(err)\n	}\n", "", "safe"},
	{"answers are used before the kind is known", "send", "if e.unsure(b, now) {", "if false {", "safe"},
	{"a quota that is used up is at hand without Redis", "local", "if !known || ", "if true || !known || ", "expect"},
	{"a process that hears no news does not look itself", "news", "	if e.outage != nil {\n		return\n	}\n	hears := ", "	if true {\n		return\n	}\n	hears := ", "expect"},
	{"calls do not ask as Redis is back", "outage", "	e.outage = nil\n	e.refreshLines(func(*line) bool { return true })\n", "	e.outage = nil\n", "clean"},
	{"permits wait for the head of a queue for 4 s", "clock", "usualGrace          = 400 * time.Millisecond", "usualGrace          = 4 * time.Second", "used"},
	{"a head that is told that it is late sleeps on", "news", "			if rest == e.cfg.Process {\n				e.roomAt(key, 1, micros)\n			}\n", "", "expect"},
	{"another pace makes turns void", "move", "	for limit, l := range e.leases {", "	e.takeBack(key, c.at, now, func(t *Turn) bool { return t.Given <= c.at })\n	for limit, l := range e.leases {", "used"},
	{"turns of a limit that has changed are used late", "move", "		if t.Given < m.changed {\n			t.shorten(t.Due)\n		}\n", "", "safe"},
	{"a pause lets turns be used that were given before", "move", "	e.takeBack(key, given, now, func(t *Turn) bool { return t.Given <= given && t.Moment < due })\n", "", "safe"},
	{"all calls of a line are asked for at the limit of its first place", "place", "return s == setOf(len(l.parts))-1 }", "return s != 0 }", "expect"},
	{"where permits come sooner, one call asks", "place", "	growth = 2\n", "	growth = 0\n", "expect"},
	{"news makes calls ask again whose answers are newer", "answer", "of.place.stale && micros <= of.place.news && ", "of.place.stale && micros >= 0 && ", "TestNewsOfBeforeAnAnswer"},
	{"a deadline does not travel with the ask", "place", "if l.need.ID == \"\" && !l.need.Now && !last.Deadline.IsZero() {", "if false && !last.Deadline.IsZero() {", "TestADeadlineIsToldAtOnce"},
	{"calls with short deadlines all ask Redis", "missed", "	if !fresh {", "	if true || !fresh {", "TestADeadlineIsToldAtOnce"},
	{"what was late once is late again", "place", "		b.leastWay, l.leastWay = max(b.leastWay, l.leastWay), 0\n", "		l.leastWay = 0\n", "TestEventsInAnyOrder"},
	{"turns of calls that gave up are forgotten with their line", "engine", "if ends := l.keeps(now); !ends.IsZero() {", "if ends := l.keeps(now); false && !ends.IsZero() {", "expect"},
	{"a lease has turns that are not due", "left", " && !e.closed && !t.Due.After(now) && l.isLast(t) {", " && !e.closed && l.isLast(t) {", "safe"},
	{"a place that no call needs stays", "place", "	for i := len(l.places) - 1; i >= 0 && len(l.places) > len(l.waiting); i-- {", "	for i := len(l.places) - 1; i >= 0 && false; i-- {", "clean"},
	{"a call that begins in a hard stop waits in the place that another one is leaving", "line", "		case l.stops(): // no call would wait there, so its answer is asked for\n			l.places[n-1].stale = true\n", "", "alive"},
	{"calls wait in a hard stop", "send", "	e.halt(b.limits, &r.Reply) // before calls hear that their turns come after their deadlines\n", "", "alive"},
	{"a reply that says nothing of a stop fails calls", "move", "!r.Tells(i) ||", "i < 0 ||", "true"},
	{"a pause takes no turns back that are behind used ones", "move", "			case len(l.parts) == 1 && t.isBehind() && ", "			case len(l.parts) == 1 && t.isBehind() && *t.spent == 0 && ", "used"},
	{"a hard stop with a known end is probed before", "../wire/stop", "until.Add(time.Second - 1).UTC()", "until.UTC()", "safe"},
	{"the time for which a process was suspended counts as a way", "join", "	if way <= 2*farthest {\n", "	if true {\n", "used"},
	{"turns count from when the reply was sent", "clock", "	return high.Add(since + told - way), way\n", "	return low.Add(since), way\n", "safe"},
}

// mistakesIn says for each planted mistake which history finds it. A mistake without a law is found by no
// history.
const mistakesIn = "testdata/mistakes.json"

// found says how a mistake was found.
type found struct {
	What, Law, In string
	Histories     int
}

// Each piece is still in its file. FLEETPACE_WORLD_MISTAKES=1 plants each mistake in a build of its own,
// and writes down which history finds it. That takes up to a minute of a core for each. With some words of a mistake in
// place of 1, only that mistake is planted.
func TestMistakesInTheEngine(t *testing.T) {
	plants := os.Getenv("FLEETPACE_WORLD_MISTAKES")
	all := foundMistakes(t)
	known := map[string]found{}
	for _, f := range all {
		known[f.What] = f
	}
	all = nil
	for _, m := range mistakes {
		file := filepath.Join("..", "engine", m.file+".go")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), m.from), "%s: plant it anew", m.what)
		f := known[m.what]
		if plants == "1" || plants != "" && strings.Contains(m.what, plants) {
			f = plant(t, file, strings.Replace(string(text), m.from, m.to, 1), m.law)
			f.What = m.what
			t.Logf("%-60s %-7s %4d histories, %s", f.What, f.Law, f.Histories, f.In)
		}
		if f.What != "" {
			all = append(all, f)
		}
	}
	if plants != "" {
		text, err := json.MarshalIndent(all, "", "\t")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(mistakesIn, append(text, '\n'), 0o600))
	}
}

// foundMistakes reads what is written there.
func foundMistakes(t *testing.T) (all []found) {
	t.Helper()
	written, err := os.ReadFile(mistakesIn)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(written, &all))
	return all
}

// plant builds the engine with another text of a file, and runs the test that finds a history which breaks
// a law.
func plant(t *testing.T, file, text, law string) (f found) {
	t.Helper()
	dir := t.TempDir()
	wrong, binary, overlay := filepath.Join(dir, "wrong.go"), filepath.Join(dir, "world.test"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(wrong, []byte(text), 0o600))
	file, err := filepath.Abs(file)
	require.NoError(t, err)
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: wrong}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	if strings.HasPrefix(law, "Test") {
		out, _ := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, "-run", "^"+law+"$", "../engine").CombinedOutput() //nolint:gosec // it is ours
		require.Contains(t, string(out), "--- FAIL: "+law)
		return found{Law: "engine", In: law, Histories: 1}
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-tags", "mistakes", "-overlay", overlay, "-o", binary, ".").CombinedOutput() //nolint:gosec // it is ours
	require.NoError(t, err, "%s", out)
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestFinds$", "-test.v", "-test.timeout", "0") //nolint:gosec // it is ours
	cmd.Env = append(os.Environ(), "FLEETPACE_WORLD_FINDS="+law)
	out, _ = cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if _, what, ok := strings.Cut(line, "FOUND "); ok {
			require.NoError(t, json.Unmarshal([]byte(what), &f))
			return f
		}
	}
	t.Logf("nothing is found: %s", out[max(0, len(out)-2000):])
	return f
}
