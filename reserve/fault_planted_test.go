package reserve_test

import (
	"context"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// bug is a mistake that somebody could make. The zero bug is none.
type bug struct {
	plan      func(*plan)       // makes the history one in which it shows
	call      func(args []any)  // spoils a script call on its way
	scripts   map[string]string // by the SHA of the true one
	impatient bool              // calls do not wait
}

// planted are bugs that the histories must notice: each within this many.
const plantedWithin = 200

var planted = []struct {
	name             string
	fault            func() fault
	call             func() func(args []any)
	script, from, to string // a piece of a script, and what is there instead
	impatient        bool
}{
	{name: "calls do not wait for their turns", impatient: true},
	{name: "a take is repeated under another serial", fault: repliesLost, call: func() func([]any) {
		var last atomic.Int64
		return func(args []any) { args[argSerial] = last.Add(1) }
	}},
	{name: "the trace of a take is ignored", fault: repliesLost,
		script: "take", from: "if replay then recover() end", to: ""},
	{name: "a copy that comes late is carried out", fault: requestsLate,
		script: "quick", from: "sub(v[2] or '', 1, #known) ~= known", to: "not v[2]"},
	{name: "processes bring no memory", fault: func() fault { return fault{kind: flush} }, call: func() func([]any) {
		return func(args []any) {
			args[argReach], args[argEpoch], args[argSeen] = int64(-1e15), 0, 0
		}
	}},
	{name: "nobody notices a rollback", fault: func() fault { return fault{kind: rollBack} },
		script: "line", from: "if not missed(seen) then return end", to: "do return end"},
	{name: "nobody notices a clock that goes ahead", fault: func() fault { return fault{kind: clockStep, step: 1200 * time.Millisecond} },
		script: "line", from: "if ahead > STEP_MICROS then", to: "if false then"},
}

// Places in the arguments of EVALSHA: the verb, the script, the number of keys and
// the keys come first.
const (
	argReach  = 7 + 2
	argEpoch  = 7 + 3
	argSeen   = 7 + 4
	argSerial = 7 + 7
)

func repliesLost() fault {
	return fault{kind: cutAfter, chance: 0.3, to: time.Second}
}

func requestsLate() fault {
	return fault{kind: delayRequest, chance: 0.3, to: time.Second}
}

// The test of the test: each bug must be noticed soon.
func TestFaultHistoriesNoticeBugs(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := bug{impatient: p.impatient, plan: func(plan *plan) {
				plan.calm()
				if p.fault != nil {
					f := p.fault()
					f.process, f.from = -1, 2*warmUp
					if f.to > 0 {
						f.to += f.from
					}
					plan.faults, plan.ends = []fault{f}, max(f.from, f.to)+longDelay
				}
			}}
			if p.call != nil {
				b.call = p.call()
			}
			if p.script != "" {
				b.scripts = spoiled(t, p.script, p.from, p.to)
			}
			for seed := range uint64(plantedWithin) {
				if h := play(t, seed, b); len(h.problems) > 0 {
					t.Logf("noticed in history %d: %q", seed+1, h.problems[0])
					clean := play(t, seed, bug{plan: b.plan})
					require.Empty(t, clean.problems, "it is the bug that was noticed")
					return
				}
			}
			t.Errorf("not noticed in %d histories", plantedWithin)
		})
	}
}

// calm leaves no faults, and a fleet that waits as long as it takes.
func (p *plan) calm() {
	p.policy, p.cancels, p.faults, p.ends = "wait", false, nil, warmUp
	for i := range p.callers {
		p.callers[i].givesUp = 0
	}
}

// spoiled returns the scripts with a bug.
func spoiled(t *testing.T, script, from, to string) map[string]string {
	t.Helper()
	line, count := source(t, "line"), 0
	if script == "line" {
		line, count = strings.ReplaceAll(line, from, to), strings.Count(line, from)
	}
	scripts := map[string]string{}
	for sha, verb := range verbs {
		text := source(t, verb)
		with := line
		if verb == "quick" { // it stands alone
			with = ""
			require.Equal(t, sha, sha1Of(text), "the script of %s", verb)
		} else {
			require.Equal(t, sha, sha1Of(source(t, "line")+text), "the script of %s", verb)
		}
		if verb == script {
			text, count = strings.ReplaceAll(text, from, to), strings.Count(text, from)
		}
		scripts[sha] = with + text
	}
	require.Equal(t, 1, count, "%s.lua does not hold %q once: bring the planted bug up to date", script, from)
	return scripts
}

func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../lua/" + name + ".lua")
	require.NoError(t, err)
	return string(text)
}

// spoiler spoils script calls on their way.
type spoiler func(args []any)

func (s spoiler) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (s spoiler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s spoiler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && len(cmd.Args()) > argSerial {
			s(cmd.Args())
		}
		return next(ctx, cmd)
	}
}
