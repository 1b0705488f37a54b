package reserve_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/lua"
	"github.com/fleetpace/fleetpace/reserve"
)

// bug is a mistake that somebody could make. The zero bug is none.
type bug struct {
	call      func(args []any) // spoils a script call on its way
	impatient bool             // one call in ten does not wait
}

// Places in the arguments of EVALSHA for one limit: the verb, the script and the number of keys come
// first, then the keys, then the arguments of all calls.
const (
	ofLimit    = 3 + lua.KeysOfLimit + lua.ArgsOfAll
	argKnown   = ofLimit + lua.LimitKnown
	argVersion = ofLimit + lua.LimitVersion
	argReach   = ofLimit + lua.LimitReach
	argClock   = ofLimit + lua.LimitClock
)

// planted are bugs that the histories must notice.
var planted = []struct {
	name      string
	trouble   trouble
	spoil     []string // pieces of the script ask, and what is there instead
	call      func(args []any)
	impatient bool
	from      uint64 // the first seed: one that finds it
}{
	{name: "one call in ten does not wait for its turn", impatient: true},
	{name: "processes bring no memory", trouble: trouble{what: flush}, call: func(args []any) {
		if args[1] == lua.Ask.Hash() || args[0] == "eval" && len(args) > 30 {
			args[argKnown], args[argVersion], args[argReach], args[argClock] = "", 0, "", 0
		}
	}},
	{name: "nobody minds the turns that are out", trouble: trouble{what: flush},
		spoil: []string{"if unknown then atLeast(l, now + AHEAD", "if false then atLeast(l, now + AHEAD"}},
	// Who sees one of them needs not see the other.
	{name: "nobody notices a rollback", from: 5, trouble: trouble{what: rollBack}, spoil: []string{
		"epoch == l.epoch and l.version < l.brought", "false", "local other = run ~= '' and l.run ~= '' and l.run ~= run", "local other = false"}},
	{name: "nobody notices a clock that goes ahead", trouble: trouble{what: clockStep, step: 3 * time.Second},
		spoil: []string{"return clock > 0 and ahead > STEP and ahead or 0", "return 0"}},
	{name: "turns of others go back", trouble: trouble{what: cutAfter, chance: 0.3, to: time.Second},
		spoil: []string{"if not process or process .. ' ' .. serial ~= who then return 0 end", "if not process then return 0 end"}},
	{name: "a turn is used however late it is", from: 12, trouble: trouble{what: delayReply, chance: 0.5, to: 2 * time.Second},
		spoil: []string{"return min(l.free + l.part + (l.b - cost) * l.a,", "return min(due + 1e9,"}},
}

// only is a history with one trouble, of all processes, whose calls wait.
func only(seed uint64, f trouble) *plan {
	plan := newPlan(seed)
	plan.policy = reserve.PolicyWait
	for i := range plan.callers {
		plan.callers[i].givesUp = 0
	}
	f.process, f.from = -1, 2*warmUp
	if f.to > 0 || f.is(rollBack) {
		f.to += f.from + 1
	}
	plan.suffer(f)
	return plan
}

// After a failover who asks first must know that another server answers: one that remembers
// little would let the state look newer than what others remember.
func TestFailoverHistories(t *testing.T) {
	for _, seed := range []uint64{3, 28, 73} {
		require.Empty(t, play(t, only(seed, trouble{what: rollBack}), bug{}).problems, "seed %d", seed)
	}
}

// The test of the test: each bug must be noticed soon, and it is the bug that is noticed.
func TestFaultHistoriesNoticeBugs(t *testing.T) {
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			b := bug{impatient: p.impatient, call: p.call}
			if p.spoil != nil {
				b.call = spoiled(t, p.spoil)
			}
			const within = 40
			for seed := p.from; seed < p.from+within; seed++ {
				if h := play(t, only(seed, p.trouble), b); len(h.problems) > 0 {
					t.Logf("noticed in history %d: %q", seed+1, h.problems[0])
					require.Empty(t, play(t, only(seed, p.trouble), bug{}).problems)
					return
				}
			}
			t.Errorf("not noticed in %d histories", within)
		})
	}
}

// spoiled puts a script with a bug in the place of ask.
func spoiled(t *testing.T, pieces []string) func(args []any) {
	t.Helper()
	var b strings.Builder
	const files = "head items common meter paced quota rolling warming arguments places slots shares room bookings heads state ask"
	for _, file := range strings.Fields(files) {
		text, err := os.ReadFile("../lua/" + file + ".lua")
		require.NoError(t, err)
		if file == "meter" || file == "shares" {
			b.WriteString("return (function()\n")
		}
		b.Write(text)
	}
	text := b.String() + strings.Repeat("end)()\n", 2)
	require.Equal(t, lua.Ask.Hash(), redis.NewScript(text).Hash(), "ask consists of other files")
	for i := 0; i < len(pieces); i += 2 {
		require.Contains(t, text, pieces[i], "bring the planted bug up to date")
	}
	wrong := strings.NewReplacer(pieces...).Replace(text)
	return func(args []any) {
		switch args[1] {
		case lua.Ask.Hash():
			args[1] = redis.NewScript(wrong).Hash()
		case text:
			args[1] = wrong
		}
	}
}

// spoiler spoils script calls on their way.
type spoiler func(args []any)

func (spoiler) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

func (spoiler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s spoiler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			s(cmd.Args())
		}
		return next(ctx, cmd)
	}
}
