package lua

import (
	"iter"
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
	{"winding back leaves the floor", "line", "s.floor = below\n", "\n", false, nil},
	{"an overflow is ignored", "line", "if last >= lowest then return end", "do return end", true, nil},
	{"a clock that went back is ignored", "line", "s.anchorMicros = s.anchorMicros - micros", "", false, nil},
	{"final tickets do not bar what is before them after a clock step", "line", "s.floor = math.max(s.floor, s.final)\n  s.resumeMicros", "s.resumeMicros", false, []trouble{{Back: true}}},
	{"a new rate moves nobody", "line", "math.ceil(left * interval)", "math.ceil(due(s.tail) - now)", false, nil},
	{"the reach of a caller is ignored", "line", "math.max(caller.reach + caller.later, -burst * interval)", "-burst * interval", true, nil},
	{"tickets that others have are not expected", "line", "caller.reach + caller.later, -burst", "caller.reach, -burst", false, []trouble{{Lost: true}}},
	{"keys expire before the bucket is full", "line", "math.ceil((last + burst * interval) / 1000)", "math.ceil(last / 1000)", true, nil},
	{"waits are rounded down", "line", "math.max(0, math.ceil(due(e) - now))", "math.max(0, math.floor(due(e) - now))", false, nil},
	{"a late ticket at the tail is given back below the floor", "line", "if e > s.tail or e - cost < s.floor or", "if e > s.tail or", false, nil},
	{"a late free number is used", "line", "function(e, size) return not fits(e, size) end", "function() return false end", true, nil},
	{"what is left of a free block is lost", "line", "if block.size > cost then", "if false then", false, nil},
	{"a free block stays free", "line", "redis.call('ZREM', FREE, block.member)", "", true, nil},
	{"a passed number is not dead", "line", "return e <= s.final and now > due(e - cost) + math.max(burst, cost) * interval", "return false", true, nil},
	{"giving back leaves the final mark above the tail", "line", "s.final = math.min(s.final, s.tail)", "", false, nil},
	{"the final mark does not sink", "line", "local highest = e == s.final", "local highest = false", false, nil},
	{"the final mark sinks too far", "line", "s.final - (cost or 0)", "math.max(0, s.final - 2 * (cost or 0))", false, nil},
	{"asking again winds back past a later ticket", "line", "if e ~= mark() or", "if", true, nil},
	{"a claim is not remembered", "claim", "remember(member, best)", "", false, nil},
	{"a claim does not raise the final mark", "claim", "finalize(best, cost, math.max(now, due(best)))", "", true, nil},
	{"the former holder gets nothing", "claim", "redis.call('ZADD', WAITING, own, holder)", "redis.call('ZREM', WAITING, holder)", false, nil},
	{"the former holder keeps the number", "claim", "redis.call('ZADD', WAITING, own, holder)", "", true, nil},
	{"nobody notes who was displaced", "claim", "if wait(own) > bound then redis.call('ZADD', CLAIMED, own, moved_to(holder)) end", "", false, nil},
	{"nobody notes whose number passed", "line", "if list == WAITING then lose(member, e) end", "", false, nil},
	{"who was displaced goes to the end", "claim", "if displaced(member, own) then own = best end", "", false, nil},
	{"a claim of a known number takes a second", "claim", "if e then return 1, e, wait(e) end", "", false, nil},
	{"a take does not raise the final mark", "take", "finalize(e, cost, math.max(now, due(e)))", "", true, nil},
	{"a refused take consumes", "take", "LONGEST_MICROS)) then return 0, 0, w end", "LONGEST_MICROS)) then accept(e, cost, block) return 0, 0, w end", false, nil},
	{"a repeated take gets what it was refused", "take", "if replay and not (keep or before) and maxWait >= 0 then return 0, 0, w end", "", false, nil},
	{"a stored permit is final where none may be", "take", "if w > bound then", "if w > math.max(bound, 0) then", false, nil},
	{"a ticket can be cancelled twice", "cancel", "redis.call('ZREM', WAITING, member)\n      redis.call('ZREM', CLAIMED, member)", "", true, nil},
	{"who leaves keeps the final ticket too", "cancel", "redis.call('ZREM', CLAIMED, member)\n  redis.call('ZADD', WAITING, held, member)", "redis.call('ZADD', WAITING, held, member)", false, nil},
	{"the epoch of a cancelled number is ignored", "cancel", "epoch == s.epoch and", "", true, []trouble{{Lost: true}}},

	{"a gap is left where the bucket overflowed", "line", "if s.tail == top then", "if false then", false, nil},
	{"what overflows is skipped behind those who wait", "line", "if s.tail == s.final then", "if true then", false, nil},
	{"a repeated take takes again", "take", "if replay then recover() end", "", false, nil},
	{"a repeated take does not find who waits", "take", "if keep or replay then", "if keep then", false, nil},
	{"a copy that comes late is carried out", "line", "if caller.serial > 0 and caller.serial < own.serial then", "if false then", false, nil},
	{"a repeated cancel gives a number back again", "cancel", "return not (replay or forgotten) and epoch", "return epoch", false, nil},
	{"a cancel gives a number back of which nobody knows whether it was", "cancel", "(replay or forgotten)", "replay", false, nil},
	{"a repeated cancel gives a ticket back again", "cancel", "local copy = replay or", "local copy =", false, nil},
	{"a late cancel gives back what another line gave", "cancel", "replay or epoch > 0 and epoch ~= epochRead", "replay", false, nil},
	{"a rollback is not noticed", "line", "if not missed(seen) then return end", "do return end", true, []trouble{{Rollback: true}}},
	{"a rollback is noticed by the first who calls only", "line", "if witness and witness <= latest then return caller.seen > witness end", "", false, []trouble{{Rollback: true}}},
	{"a rollback past a step of the clock is not noticed", "line", "witness <= latest", "true", false, []trouble{{Rollback: true, Back: true}}},
	{"nobody else hears of a rollback", "line", "s.epoch = now == s.epoch and now + 1 or now", "", false, []trouble{{Rollback: true}}},
	{"another state than the caller's is believed", "line", "if back or late > 0 then", "if back then", false, []trouble{{Lost: true}}},
	{"moving the line leaves the floor", "line", "s.floor = math.max(s.floor, s.final)\n  moved = true\nend\n\n-- create", "moved = true\nend\n\n-- create", true, []trouble{{Rollback: true}}},
	{"a clock that went ahead is believed", "line", "if ahead > STEP_MICROS then", "if false then", true, []trouble{{Forward: true}}},
	{"a clock goes ahead where the fleet saw it passing", "line", "math.min(quiet, math.floor(now - caller.clock))", "math.floor(now - caller.clock)", false, []trouble{{Forward: true}}},
	{"what was spent is not charged", "charge", "if debt > 0 then", "if false then", false, []trouble{{Away: true}}},
	{"numbers that pay may be used all the same", "charge", "    redis.call('ZREM', list, member)\n", "", false, []trouble{{Away: true}}},
	{"a repeated charge charges again", "charge", "spent - settled)", "spent)", false, []trouble{{Away: true}}},
	{"a repeated charge does not charge what was spent since", "charge", "spent - settled)", "replay and 0 or spent)", false, []trouble{{Away: true}}},
	{"each copy of a charge may charge the most", "charge", "most - charged)", "most)", false, []trouble{{Away: true}}},
	{"an old copy of a charge forgets what was settled", "charge", "digits(settled + new)", "digits(spent)", false, []trouble{{Away: true}}},
	{"permits that nobody used do not pay", "charge", "s.idle - before), new)", "s.idle - before), 0)", false, []trouble{{Away: true}}},
	{"those who wait are late after an outage", "charge", "\ncatch_up()\n", "\n", false, []trouble{{Away: true}}},
	{"the line goes on at once after an outage", "charge", "  hold()\n", "", false, []trouble{{Away: true}}},
	{"dropped numbers hold up those who come back", "line", "if before == mark then return before end", "do return mark end", false, []trouble{{Away: true}}},
	{"what waits is not held up after an outage", "line", "before = math.min(before, start) end", "before = before end", false, []trouble{{Away: true}}},
	{"a state is forgotten while processes use it", "line", "ttl = math.max(ttl, LINGER_MILLIS)", "", false, nil},
	{"processes that are gone count", "line", "if seen and math.abs(now - seen) <= ALIVE_MICROS then", "if seen then", false, nil},

	{"a quick goes by another epoch", "quick", "v[1] ~= ARGV[a] .. limits", "string.sub(v[1] or '', -#limits) ~= limits", false, []trouble{{Rollback: true}}},
	{"a quick does not tell that others came or went", "quick", "v[1] ~= ARGV[a] .. limits", "string.gsub(v[1] or '', ' %d+', '', 1) ~= string.gsub(ARGV[a], ' %d+', '', 1) .. limits", false, nil},
	{"a line is plain whoever came or went", "line", "digits(s.live), ARGV[base + 1]", "digits(math.min(s.live, 1)), ARGV[base + 1]", false, nil},
	{"a quick goes by another rate", "quick", "v[1] ~= ARGV[a] .. limits", "string.sub(v[1] or '', 1, #ARGV[a]) ~= ARGV[a] or v[1] == 'no'", false, []trouble{{RateChange: true}}},
	{"a quick does not ask whether the line is plain", "quick", "v[1] ~= ARGV[a] .. limits", "not v[1]", false, nil},
	{"a quick does not see a rollback", "quick", "known == '' or sub(v[2] or '', 1, #known) ~= known", "false", true, []trouble{{Rollback: true}}},
	{"a new member takes quickly", "quick", "known == '' or", "", false, nil},
	{"a copy of a quick is carried out", "quick", "sub(v[2] or '', 1, #known) ~= known", "false", false, nil},
	{"the process of a new member does not show a rollback", "line", "text or process or ''", "text or ''", false, []trouble{{Rollback: true}}},
	{"a quick goes by a clock that went back", "quick", "now < seen or", "", false, []trouble{{Back: true}}},
	{"a quick goes by a clock that went ahead", "quick", "now - seen > 1000000 and now - clock > 1000000", "false", false, []trouble{{Forward: true}}},
	{"a quick takes a fleet that rests for a clock that went ahead", "quick", "now - seen > 1000000 and now - clock > 1000000", "now - seen > 1000000", false, nil},
	{"a quick ignores an overflow", "quick", "if last < lowest then", "if false then", true, nil},
	{"a quick ignores how far the permits are away", "quick", "not (last - now <= slack) or", "", false, nil},
	{"a quick is not noted", "quick", "'seenMicros', text, member, record)\n    end", "'seenMicros', text)\n    end", false, nil},
	{"a quick does not say what it gave", "quick", "' 1=' .. start .. ';'", "' '", false, nil},
	{"a quick says that it gave what is before", "quick", "' 1=' .. start .. ';'", "' 1=' .. tail - 1 .. ';'", true, nil},
	{"a quick leaves the serial", "quick", "text .. ' ' .. serial", "text .. ' 0'", false, nil},
	{"a quick does not raise the final mark", "quick", "'final', number,\n        'seenMicros'", "\n        'seenMicros'", false, nil},
	{"a quick does not note what nobody used", "quick", "idle + gone", "idle", false, nil},
	{"extra permits do not last", "quick", "lowest = from", "lowest = lowest", false, nil},
	{"extra permits are given that are not due", "quick", "> now then\n        extra = 0", "> now then\n        extra = extra", true, nil},
	{"extra permits are given before they are due by themselves", "quick", "(permits + extra) * interval", "extra * interval", false, nil},
	{"a line that a quick moves on expires before the bucket is full", "quick", "next_free + fill > now + 50000000", "false", false, nil},
	{"a quick lets a line expire as soon as the bucket is full", "quick", "max(91000, ceil((next_free + fill) / 1000) - floor(now / 1000) + 1000)", "ceil((next_free + fill) / 1000) - floor(now / 1000)", false, nil},
	{"a take says that a line is plain where a number is free", "line", "and s.free == 0", "", false, nil},
	{"a take says that a line is plain where numbers wait at its end", "line", "s.tail == s.final and s.free", "s.free", false, nil},
	{"a line is plain while nothing is due before everybody comes back", "line", "and s.resumeMicros <= now and", "and", false, []trouble{{Away: true}}},
	{"what was plain stays so", "line", "if moved or is ~= plainRead then", "if moved then", false, nil},
	{"a line is plain in a pause", "line", "and s.pauseMicros <= now", "", false, nil},
	{"a pause lets what overflowed come back", "pause", "s.final, s.floor = math.max(s.final, last), last", "s.final = math.max(s.final, last)", false, nil},
	{"a pause does not move the line", "pause", "if late > 0 then", "if false then", false, nil},
	{"a pause takes a number from who waits", "pause", "if cost and not dead(e, cost) then", "if false then", false, nil},
	{"a pause leaves the bucket as it is", "pause", "if last > s.tail then", "if false then", false, nil},
	{"a shorter pause counts", "pause", "if moment <= math.max(now, s.pauseMicros) then", "if moment <= now then", false, nil},
	{"a resume moves the line by more than the pause had", "resume", "math.min(rest, s.pausedMicros)", "rest", false, nil},
	{"pauses add up", "pause", "(s.pauseMicros > now and s.pausedMicros or 0)", "s.pausedMicros", false, nil},
	{"a clock that goes back lengthens a pause", "line", "s.pauseMicros = math.max(0, s.pauseMicros - micros)", "", false, []trouble{{Back: true}}},
	{"a clock that goes ahead shortens a pause", "line", "if s.pauseMicros > 0 then s.pauseMicros = s.pauseMicros + micros end", "", false, []trouble{{Forward: true}}},
	{"a new rate stretches a pause", "line", "local from = math.max(since, s.pauseMicros)", "local from = since", false, []trouble{{RateChange: true}}},
	{"a limit that was set for all is not in force", "line", "if s.setIntervalMicros > 0 then interval", "if false then interval", false, nil},
	{"a limit that was set for all does not end", "line", "if s.setUntilMicros > 0 and s.setUntilMicros <= now then", "if false then", false, nil},
	{"what overflowed comes back with a larger bucket", "line", "s.floor = math.max(s.floor, available() - s.burst)", "", false, nil},
	{"a line is plain whatever its limit", "line", "\n    and s.setIntervalMicros == 0", "", false, nil},
	{"a limit that was set is forgotten when the bucket is full", "line", "math.ceil(s.setUntilMicros / 1000)", "math.floor(now / 1000)", false, nil},
	{"a request that costs more than the bucket holds is served", "take", "if cost > burst then return 0, 0, LONGEST_MICROS end", "", false, nil},
	{"each member counts as a process", "line", "'^m:([^/]*)'", "'^m:(.*)'", false, nil},
}

// found says in which histories the comparison, and the provider, noticed bugs that few show.
// They are played first, which spares the others.
var found = map[string][2]uint64{
	"a claim does not raise the final mark":                     {1, 62},
	"a clock that goes ahead shortens a pause":                  {988, 0},
	"a clock that went ahead is believed":                       {28, 329},
	"a free block stays free":                                   {10, 125},
	"a late cancel gives back what another line gave":           {199, 0},
	"a late free number is used":                                {20, 35},
	"a late ticket at the tail is given back below the floor":   {166, 0},
	"a limit that was set for all does not end":                 {53, 0},
	"a limit that was set for all is not in force":              {53, 0},
	"a limit that was set is forgotten when the bucket is full": {404, 0},
	"a line is plain whatever its limit":                        {53, 0},
	"a new rate moves nobody":                                   {38, 0},
	"a new rate stretches a pause":                              {161, 0},
	"a pause takes a number from who waits":                     {59, 0},
	"a quick does not say what it gave":                         {148, 0},
	"a quick does not see a rollback":                           {5, 1038},
	"a quick goes by a clock that went back":                    {1533, 0},
	"a quick goes by another rate":                              {111, 0},
	"a quick says that it gave what is before":                  {148, 705},
	"a repeated cancel gives a ticket back again":               {111, 0},
	"a repeated take gets what it was refused":                  {57, 0},
	"a request that costs more than the bucket holds is served": {63, 0},
	"a resume moves the line by more than the pause had":        {196, 0},
	"a rollback is not noticed":                                 {1, 167},
	"a shorter pause counts":                                    {124, 0},
	"a ticket can be cancelled twice":                           {5, 731},
	"an old copy of a charge forgets what was settled":          {599, 0},
	"another state than the caller's is believed":               {65, 0},
	"asking again winds back past a later ticket":               {20, 283},
	"dropped numbers hold up those who come back":               {408, 0},
	"each copy of a charge may charge the most":                 {2287, 0},
	"extra permits are given that are not due":                  {3, 39},
	"moving the line leaves the floor":                          {1, 1004},
	"numbers that pay may be used all the same":                 {560, 0},
	"pauses add up": {59, 0},
	"the epoch of a cancelled number is ignored":           {106, 1512},
	"the final mark does not sink":                         {95, 0},
	"the process of a new member does not show a rollback": {318, 0},
	"the reach of a caller is ignored":                     {16, 125},
	"what overflowed comes back with a larger bucket":      {108, 0},
}

// seeds are the histories to look for a bug in, the one first that showed it before.
func seeds(before, histories uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if before > 0 && !yield(before) {
			return
		}
		for seed := uint64(1); seed <= histories && yield(seed); seed++ {
			continue
		}
	}
}

// with returns the sources with a bug.
func (s sources) with(t *testing.T, script, from, to string) sources {
	t.Helper()
	text := map[string]*string{"line": &s.line, "take": &s.take, "claim": &s.claim, "cancel": &s.cancel, "charge": &s.charge, "quick": &s.quick, "pause": &s.pause, "resume": &s.resume, "set": &s.set}[script]
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
	const histories = 5000
	client := patient(t, quickest(t))
	for _, bug := range planted {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			script := trueSources().with(t, bug.script, bug.from, bug.to).driver()
			compared := uint64(0)
			for seed := range seeds(found[bug.name][0], histories) {
				_, r := record(seed, 12, bug.trouble...)
				s := newStage(t, client, script)
				err := r.compare(s)
				_ = s.clear()
				if err != nil {
					compared = seed
					break
				}
			}
			if compared == 0 {
				t.Fatalf("the comparison did not notice it in %d histories", histories)
			}
			if !bug.unsafe {
				t.Logf("the comparison noticed it in history %d", compared)
				return
			}
			for seed := range seeds(found[bug.name][1], histories) {
				p := &scriptPlayer{t: t, stage: newStage(t, client, script)}
				refused, _ := play(seed, 20, p, bug.trouble...).judge()
				_ = p.stage.clear()
				if refused > 0 {
					t.Logf("the comparison noticed it in history %d, the provider in history %d", compared, seed)
					return
				}
			}
			t.Fatalf("the provider did not notice it in %d histories", histories)
		})
	}
}

// quickest is a real Redis, which runs scripts many times faster, or miniredis where
// there is none.
func quickest(t *testing.T) *redistest.Server {
	var server *redistest.Server
	t.Run("server", func(t *testing.T) { server = redistest.New(t) })
	if server == nil {
		server = redistest.Mini(t)
	}
	return server
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

func (p *scriptPlayer) replies(verb string, at int64, args []string) model.Reply {
	reply, err := parseReply(p.run(verb, at, args))
	if err != nil {
		p.t.Fatal(err)
	}
	return reply
}

func (p *scriptPlayer) take(at int64, limit model.Limit, c model.Caller, bound float64, requests []model.Request) model.Reply {
	return p.replies("take", at, takeArgs(limit, c, bound, requests))
}

func (p *scriptPlayer) quick(at int64, limit model.Limit, c model.Caller, row model.Row) model.Given {
	given, err := parseGiven(p.run("quick", at, quickArgs(limit, c, row)), 1)
	if err != nil {
		p.t.Fatal(err)
	}
	return given[0]
}

func (p *scriptPlayer) claim(at int64, limit model.Limit, c model.Caller, bound float64, tickets []model.Ticket) model.Reply {
	return p.replies("claim", at, claimArgs(limit, c, bound, tickets))
}

func (p *scriptPlayer) charge(at int64, limit model.Limit, c model.Caller, what model.Charge) model.Reply {
	return p.replies("charge", at, chargeArgs(limit, c, what))
}

func (p *scriptPlayer) pause(at int64, limit model.Limit, c model.Caller, micros float64) model.Reply {
	return p.replies("pause", at, pauseArgs(limit, c, micros))
}

func (p *scriptPlayer) resume(at int64, limit model.Limit, c model.Caller) model.Reply {
	return p.replies("resume", at, resumeArgs(limit, c))
}

func (p *scriptPlayer) set(at int64, limit model.Limit, c model.Caller, to model.Limit, micros float64) model.Reply {
	return p.replies("set", at, setArgs(limit, c, to, micros))
}

func (p *scriptPlayer) cancel(at int64, limit model.Limit, c model.Caller, tickets []model.Cancellation) {
	raw := p.run("cancel", at, cancelArgs(limit, c, tickets))
	if _, err := ints(raw); err != nil && !stale(raw) {
		p.t.Fatal(err)
	}
}

func (p *scriptPlayer) inspect(at int64, limit model.Limit) { p.run("inspect", at, limitArgs(limit)) }

func (p *scriptPlayer) forget(at int64, _ model.Limit, cost int64, id string) {
	p.run("forget", at, forgetArgs(cost, id))
}

func (p *scriptPlayer) lose(at int64) { p.run("lose", at, nil) }

func (p *scriptPlayer) dump(at int64) { p.run("dump", at, nil) }

func (p *scriptPlayer) rollback(at int64) { p.run("rollback", at, nil) }

// lateAt is not known to a caller, who goes by the wait.
func (p *scriptPlayer) lateAt(int64, int64) (float64, bool) { return 0, false }
