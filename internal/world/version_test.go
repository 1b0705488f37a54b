package world

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mixedFleets returns the transcripts whose processes have two versions, by name. TestTranscripts plays them, too.
func mixedFleets(t *testing.T) map[string]*plan {
	t.Helper()
	files, err := filepath.Glob("testdata/mixed-*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]*plan{}
	for _, file := range files {
		all[filepath.Base(file)] = readTranscript(t, file)
	}
	return all
}

// Processes of an earlier version and of the next protocol share limits of every kind.
func TestNextProtocol(t *testing.T) {
	for name, p := range mixedFleets(t) {
		t.Run(name, func(t *testing.T) {
			for i := range p.processes {
				if p.processes[i].version == "" {
					p.processes[i].version = later
				}
			}
			w := play(p, false, nil)
			require.Empty(t, w.violations)
		})
	}
}

// What the next protocol adds is off as long as a process of an earlier protocol lives, and is used soon after that. It is
// off again before calls of a new process of the earlier protocol can miss it. Without that, such processes break laws.
func TestTheNextProtocolWaitsForAll(t *testing.T) {
	text := `world seed=1 policy=wait until=14s
limit name=api is="100/s burst 3"
process trip=1ms timeout=300ms version=earlier
process trip=1ms timeout=300ms version=later
process trip=1ms timeout=300ms version=later
load callers=30 of=all need=0:1
load callers=5 of=all need=0:1 quits=0.9 patience=300ms
1s pause for=12s by=50ms
4s kill of=#0
10s start of=#0
`
	p, err := readPlan(text)
	require.NoError(t, err)
	w := play(p, false, nil)
	require.Empty(t, w.violations)
	require.NotEmpty(t, w.server.added)
	first, last := w.server.added[0], time.Duration(0)
	for _, at := range w.server.added {
		if at < 11*time.Second {
			last = at
		}
	}
	t.Logf("MEASURE used from %v after the death of the last process of the earlier protocol, and until %v after another one starts", first-4*time.Second, last-10*time.Second)
	require.Greater(t, first, 4*time.Second+1750*time.Millisecond, "the process that died may live until then")
	require.Less(t, first, 9*time.Second)
	require.Less(t, last, 10*time.Second+20*time.Millisecond)
	require.False(t, slices.ContainsFunc(w.server.added, func(at time.Duration) bool { return at > 11*time.Second }))

	rash := newWorld(p)
	rash.rash, rash.brief = true, true
	rash.playOn()
	require.NotEmpty(t, rash.violations, "used at once")
}

// incompatible are changes of the current scripts that earlier ones do not understand: pieces become others.
var incompatible = []struct {
	what string
	how  []string // pairs
	law  string
	in   string
}{
	{"a field of the state has another name", []string{"'nextFreeTicketMicros'", "'nextFree'"}, "safe", "mixed-paced.txt"},
	{"a field of the state has another unit", []string{"l.blind and now - 0.5 or now\n", "floor(now / 1000)\n", "was[1], ceil(was[2]), was[3]", "was[1], was[2] * 1000, was[3]"}, "safe", "mixed-paced.txt"},
	{"the queue has another value", []string{"'%d %d %s %.0f %d %d %.0f %.0f %d'", "'%d %d %s %.0f %d %d %.0f %.0f %d 0'", "(%S+) (%S+) (%S+)$')", "(%S+) (%S+) (%S+)')"}, "true", "mixed-paced.txt"},
	{"the packed field of a quota has another order", []string{"l.edge[1], l.used[1], l.edge[2], l.used[2]", "l.edge[1], l.edge[2], l.used[1], l.used[2]", "'window', 'usedThen', 'after', 'usedAfter'", "'window', 'after', 'usedThen', 'usedAfter'"}, "used", "mixed-quota.txt"},
	{"the packed field of a rolling limit has another order", []string{"l.used, l.moment, l.offset) end", "l.moment, l.used, l.offset) end", "'used', 'moment', 'offset'", "'moment', 'used', 'offset'"}, "safe", "mixed-rolling.txt"},
	{"the packed field of slots has another order", []string{"l.used, l.mean, l.checked, l.till, l.woken) end", "l.mean, l.used, l.checked, l.till, l.woken) end", "'used', 'mean', 'checked'", "'mean', 'used', 'checked'"}, "safe", "mixed-slots.txt"},
	{"places have another form", []string{"format('%s:%.0f%s', item.call, p.cost, item.suffix)", "format('%s:c%.0f%s', item.call, p.cost, item.suffix)", "'^[^:]*:[^:]*:(%d+)'", "'^[^:]*:[^:]*:c(%d+)'"}, "used", "mixed-slots.txt"},
	{"heartbeats have another unit", []string{"call('ZADD', PROCESSES, micros(now), me)", "call('ZADD', PROCESSES, micros(now / 1e6), me)"}, "safe", "mixed-slots.txt"},
	{"the kind of a name is elsewhere", []string{"' kind', ' rank'", "' sort', ' rank'", "' kind', kind", "' sort', kind"}, "safe", "mixed-kinds.txt"},
	{"a message of pauses has another form", []string{"until:%.0f,paused", "stopped:%.0f"}, "safe", "mixed-paced.txt"},
	{"a message of slots has another form", []string{"'room:' .. process .. ':' .. told[process]", "'room:' .. told[process] .. ':' .. process"}, "expect", "mixed-slots.txt"},
}

// This tests the test: a change of the scripts that the earlier ones do not understand is found.
func TestIncompatibleChangesAreFound(t *testing.T) {
	fleets := mixedFleets(t)
	for _, m := range incompatible {
		laws := map[string]string{}
		for name, p := range fleets {
			if m.in != "" && name != m.in {
				continue
			}
			for _, pair := range slices.Collect(slices.Chunk(m.how, 2)) {
				found := false
				for _, text := range laterTexts {
					found = found || strings.Contains(text, pair[0])
				}
				require.True(t, found, "%s: no script has %q any more", m.what, pair[0])
			}
			w := newWorld(p)
			w.brief, w.server.wrong = true, func(text string) string { return strings.NewReplacer(m.how...).Replace(text) }
			w.playOn()
			for _, v := range w.violations {
				if laws[v.law] == "" {
					laws[v.law] = name + ": " + v.String()
				}
			}
		}
		if laws[m.law] == "" {
			t.Errorf("%s: law %s does not find it in %s; found are %q", m.what, m.law, m.in, laws)
		}
	}
}
