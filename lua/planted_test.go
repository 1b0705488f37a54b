package lua

import (
	"strings"
	"testing"

	"github.com/fleetpace/fleetpace/internal/model"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

// planted are bugs that somebody could make. from is a piece of line.lua, or of
// the script named, that becomes to.
var planted = []struct {
	name, script, from, to string
	// unsafe bugs let calls through that the provider refuses; the others break
	// another promise, and only the comparison sees them.
	unsafe bool
	// trouble without which it does no harm
	trouble []trouble
}{
	{"winding back leaves the floor", "line", "s.floor = e - cost\n", "\n", false, nil},
	{"an overflow is ignored", "line", "if last < lowest then", "if false then", true, nil},
	{"a clock that went back is ignored", "line", "s.anchorMicros = s.anchorMicros - (s.seenMicros - now)", "", false, nil},
	{"final tickets do not bar what is before them after a clock step", "line", "s.floor = math.max(s.floor, s.final)", "", false, []trouble{{Back: true}}},
	{"a new rate moves nobody", "line", "math.ceil((was - now) / s.intervalMicros * interval)", "(was - now)", false, nil},
	{"the reach of a caller is ignored", "line", "math.max(reach, -burst * interval)", "-burst * interval", true, nil},
	{"keys expire before the bucket is full", "line", "math.ceil((last + burst * interval) / 1000)", "math.ceil(last / 1000)", true, nil},
	{"waits are rounded down", "line", "math.max(0, math.ceil(due(e) - now))", "math.max(0, math.floor(due(e) - now))", false, nil},
	{"a late ticket at the tail is given back below the floor", "line", "if e > s.tail or e - cost < s.floor or", "if e > s.tail or", false, nil},
	{"a late free number is used", "line", "function(e, size) return not fits(e, size) end", "function() return false end", true, nil},
	{"what is left of a free block is lost", "line", "if block.size > cost then", "if false then", false, nil},
	{"a free block stays free", "line", "redis.call('ZREM', FREE, block.member)", "", true, nil},
	{"a passed number is not dead", "line", "return e <= s.final and now > due(e - cost) + burst * interval", "return false", true, nil},
	{"giving back leaves the final mark above the tail", "line", "s.final = math.min(s.final, s.tail)", "", false, nil},
	{"the final mark does not sink", "line", "local highest = e == s.final", "local highest = false", false, nil},
	{"the final mark sinks too far", "line", "s.final - (cost or 0)", "math.max(0, s.final - 2 * (cost or 0))", false, nil},
	{"asking again winds back past a later ticket", "line", "if e ~= s.final or", "if", true, nil},
	{"a claim is not remembered", "claim", "remember(member, best)", "", false, nil},
	{"a claim does not raise the final mark", "claim", "s.final = math.max(s.final, best)", "", true, nil},
	{"the former holder gets nothing", "claim", "redis.call('ZADD', WAITING, own, holder)", "redis.call('ZREM', WAITING, holder)", false, nil},
	{"the former holder keeps the number", "claim", "redis.call('ZADD', WAITING, own, holder)", "", true, nil},
	{"a claim of a known number takes a second", "claim", "if e then return 1, e, wait(e) end", "", false, nil},
	{"a take does not raise the final mark", "take", "s.final = math.max(s.final, e)", "", true, nil},
	{"a refused take consumes", "take", "then return 0, 0, w end", "then accept(e, cost, block) return 0, 0, w end", false, nil},
	{"a stored permit is final where none may be", "take", "if w > bound then", "if w > math.max(bound, 0) then", false, nil},
	{"a ticket can be cancelled twice", "cancel", "redis.call('ZREM', WAITING, member)\n      redis.call('ZREM', CLAIMED, member)", "", true, nil},
	{"who leaves keeps the final ticket too", "cancel", "redis.call('ZREM', CLAIMED, member)\n  redis.call('ZADD', WAITING, held, member)", "redis.call('ZADD', WAITING, held, member)", false, nil},
	{"the epoch of a cancelled number is ignored", "cancel", "epoch == s.epoch and", "", true, []trouble{{Lost: true}}},
}

// with returns the sources with a bug.
func (s sources) with(t *testing.T, script, from, to string) sources {
	t.Helper()
	text := map[string]*string{"line": &s.line, "take": &s.take, "claim": &s.claim, "cancel": &s.cancel}[script]
	if strings.Count(*text, from) != 1 {
		t.Fatalf("%s.lua holds %q %d times: bring the planted bug up to date", script, from, strings.Count(*text, from))
	}
	*text = strings.Replace(*text, from, to, 1)
	return s
}

// TestPlantedBugs is the test of the tests: each bug must be noticed by the
// comparison with the model, and one that is unsafe by the strict provider
// alone, which knows nothing of the model.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	const histories = 3000
	server := redistest.Mini(t)
	client := patient(t, server)
	for _, bug := range planted {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			script := trueSources().with(t, bug.script, bug.from, bug.to).driver()
			compared := 0
			for seed := uint64(1); ; seed++ {
				if seed > histories {
					t.Fatalf("the comparison did not notice it in %d histories", histories)
				}
				_, r := record(seed, 12, bug.trouble...)
				s := newStage(t, client, script)
				err := r.compare(s)
				_ = s.clear()
				if err != nil {
					compared = int(seed)
					break
				}
			}
			if !bug.unsafe || raceDetector { // with that, a history call by call takes long
				t.Logf("the comparison noticed it in history %d", compared)
				return
			}
			for seed := uint64(1); ; seed++ {
				if seed > histories {
					t.Fatalf("the provider did not notice it in %d histories", histories)
				}
				p := &scriptPlayer{t: t, stage: newStage(t, client, script)}
				refused, _ := play(seed, 20, p, bug.trouble...).judge()
				_ = p.stage.clear()
				if refused > 0 {
					t.Logf("the comparison noticed it in history %d, the provider in history %d", compared, seed)
					return
				}
			}
		})
	}
}

// scriptPlayer plays a history on the scripts alone.
type scriptPlayer struct {
	t     *testing.T
	stage *stage
}

func (p *scriptPlayer) run(verb string, at int64, args []string) any {
	outcomes, err := p.stage.run(step{verb, at, args})
	if err != nil {
		p.t.Fatal(err)
	}
	return outcomes[0].reply
}

func (p *scriptPlayer) grants(verb string, at int64, args []string) model.Reply {
	list, err := ints(p.run(verb, at, args))
	if err != nil {
		p.t.Fatal(err)
	}
	reply := model.Reply{Epoch: list[0], ReachMicros: list[1]}
	for i := 2; i < len(list); i += 3 {
		reply.Grants = append(reply.Grants, model.Grant{Status: model.Status(list[i]), Number: list[i+1], WaitMicros: list[i+2]})
	}
	return reply
}

func (p *scriptPlayer) take(at int64, limit model.Limit, bound, reach float64, requests []model.Request) model.Reply {
	return p.grants("take", at, takeArgs(limit, bound, reach, requests))
}

func (p *scriptPlayer) claim(at int64, limit model.Limit, bound, reach float64, tickets []model.Ticket) model.Reply {
	return p.grants("claim", at, claimArgs(limit, bound, reach, tickets))
}

func (p *scriptPlayer) cancel(at int64, limit model.Limit, tickets []model.Cancellation) {
	if _, err := ints(p.run("cancel", at, cancelArgs(limit, tickets))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *scriptPlayer) inspect(at int64, limit model.Limit) { p.run("inspect", at, limitArgs(limit)) }

func (p *scriptPlayer) forget(at int64, _ model.Limit, cost int64, id string) {
	p.run("forget", at, forgetArgs(cost, id))
}

func (p *scriptPlayer) lose(at int64) { p.run("lose", at, nil) }

// lateAt is not known to a caller, who goes by the wait.
func (p *scriptPlayer) lateAt(int64, int64) (float64, bool) { return 0, false }
