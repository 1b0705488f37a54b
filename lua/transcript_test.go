package lua

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/model"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

var flagUpdate = flag.Bool("update", false, "write what the scripts reply into testdata/*.txt")

// TestTranscripts runs testdata/*.txt, alike on miniredis and on real Redis. In
// these files a line that starts with a space is what the command above it leads
// to, and # starts a comment. Times are on a clock that only "at" moves.
//
//	limit 1s [burst 2] [bound 1s] [reach 5s]   the arguments of later calls; an
//	                                           interval without unit is in micros
//	as a [serial 1] [epoch 0s] [live 1] [seen 1s] [clock 2s] [last 3]   who makes
//	                                           later calls, and what it remembers,
//	                                           times on the transcript's clock; last:
//	                                           the serial of its last call; live: 1 if
//	                                           it does not say; nobody: nothing
//	at 1.5s                                    the clock, which may go back
//	take 1 job-1 [keep] [max 2s], 2 job-2      requests: cost, id, …
//	quick 2 [slack 1s] [extra 3 lasting 2s], 1 permits of several limits, whose states
//	                                           are line, waiting, free and claimed
//	claim 1 job-1, 2 job-2
//	cancel 1 job-1, 1 #5, 1 #5@0s              by id; by number; with another epoch
//	forget 1 job-1                             its call was made: the ID may be used anew
//	charge 5 [least 2] [idle 1] [away 3s] [grace 1s] [most 4]
//	inspect
//	show                                       what the keys hold
//	lose                                       delete the keys
//	dump                                       keep what the keys hold …
//	rollback                                   … and bring it back
//	call take 1000000 1 …                      a call with these very arguments
//	redis HSET line tail x                     a command on one of the four keys, or
//	                                           on two: COPY line waiting
//
// After an error everything that the keys hold is compared with what they held
// before the call.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	script := trueSources().driver()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := patient(t, server)
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				before, err := os.ReadFile(file)
				require.NoError(t, err)
				p := &performer{t: t, stage: newStage(t, client, script)}
				after := p.perform(string(before))
				require.NoError(t, p.stage.clear())
				if *flagUpdate && !server.Real() { // the real one then has to do the same
					require.NoError(t, os.WriteFile(file, []byte(after), 0o600))
					return
				}
				require.Equal(t, string(before), after, "run with -update to take this over")
			})
		}
	})
}

// performer performs the commands of a transcript.
type performer struct {
	t     *testing.T
	stage *stage
	now   time.Duration
	limit model.Limit
	bound float64
	reach float64
	as    model.Caller
	epoch int64

	before  string // what the keys held before the last call
	foreign bool   // not only the scripts wrote into the keys
}

// perform returns the transcript with what its commands lead to now.
func (p *performer) perform(text string) string {
	var out strings.Builder
	for number, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, " ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		result, err := p.command(verb, rest)
		if err != nil {
			p.t.Fatalf("line %d, %q: %v", number+1, line, err)
		}
		for _, r := range result {
			out.WriteString("  " + r + "\n")
		}
	}
	return out.String()
}

func (p *performer) command(verb, rest string) ([]string, error) {
	switch verb {
	case "limit":
		return nil, p.setLimit(strings.Fields(rest))
	case "at":
		var err error
		p.now, err = time.ParseDuration(rest)
		return nil, err
	case "as":
		return nil, p.setCaller(strings.Fields(rest))
	case "take":
		return p.take(rest)
	case "quick":
		return p.quick(rest)
	case "claim":
		var tickets []model.Ticket
		for words := range groups(rest) {
			tickets = append(tickets, model.Ticket{Cost: number(words[0]), ID: words[1]})
		}
		return p.grants(verb, claimArgs(p.limit, p.caller(), p.bound, tickets), len(tickets))
	case "cancel":
		return p.cancel(rest)
	case "charge":
		return p.charge(strings.Fields(rest))
	case "pause":
		micros := float64(duration(rest).Microseconds())
		return p.grants(verb, pauseArgs(p.limit, p.caller(), micros), 0)
	case "set":
		words := strings.Fields(rest)
		var to model.Limit
		if words[0] != "nothing" {
			to = model.Limit{IntervalMicros: float64(duration(words[0]).Microseconds()), Burst: 1}
		}
		var micros float64
		for i := 1; i+1 < len(words); i += 2 {
			switch words[i] {
			case "burst":
				to.Burst = number(words[i+1])
			case "for":
				micros = float64(duration(words[i+1]).Microseconds())
			default:
				return nil, fmt.Errorf("%q is no part of a limit that is set", words[i])
			}
		}
		return p.grants(verb, setArgs(p.limit, p.caller(), to, micros), 0)
	case "resume":
		return p.grants(verb, resumeArgs(p.limit, p.caller()), 0)
	case "forget":
		words := strings.Fields(rest)
		list, err := ints(p.run(verb, forgetArgs(number(words[0]), words[1])))
		if err != nil {
			return nil, err
		}
		return []string{map[int64]string{0: "not known", 1: "forgotten"}[list[0]]}, nil
	case "inspect":
		return p.inspect()
	case "show":
		return p.show()
	case "lose":
		p.run("lose", nil)
		p.foreign = false
		return nil, nil
	case "dump", "rollback":
		p.run(verb, nil)
		return nil, nil
	case "call":
		words := strings.Fields(rest)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], `""`, "")
		}
		reply := p.run(words[0], words[1:])
		if err, failed := reply.(error); failed {
			return p.failed(err), nil
		}
		return []string{fmt.Sprintf("replies with a list of %d", len(reply.([]any)))}, nil
	case "redis":
		return nil, p.redis(strings.Fields(rest))
	default:
		return nil, errors.New("not a command")
	}
}

// groups are the words of each part of a comma list.
func groups(list string) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		for part := range strings.SplitSeq(list, ",") {
			if !yield(strings.Fields(part)) {
				return
			}
		}
	}
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		panic(err)
	}
	return d
}

func (p *performer) setLimit(words []string) error {
	p.limit.Burst, p.bound, p.reach = 1, 1e6, -model.LongestMicros
	if micros, err := strconv.ParseFloat(words[0], 64); err == nil {
		p.limit.IntervalMicros = micros
	} else {
		p.limit.IntervalMicros = float64(duration(words[0]).Microseconds())
	}
	for i := 1; i+1 < len(words); i += 2 {
		switch words[i] {
		case "burst":
			p.limit.Burst = number(words[i+1])
		case "bound":
			p.bound = float64(duration(words[i+1]).Microseconds())
		case "reach":
			p.reach = float64(duration(words[i+1]).Microseconds())
		default:
			return fmt.Errorf("%q is no part of a limit", words[i])
		}
	}
	return nil
}

func (p *performer) setCaller(words []string) error {
	p.as = model.Caller{Member: words[0], Live: 1}
	if words[0] == "nobody" {
		p.as.Member = ""
	}
	for i := 1; i+1 < len(words); i += 2 {
		switch words[i] {
		case "serial":
			p.as.Serial = number(words[i+1])
			continue
		case "last":
			p.as.LastSerial = number(words[i+1])
			continue
		case "live":
			p.as.Live = number(words[i+1])
			continue
		}
		at := startMicros + duration(words[i+1]).Microseconds()
		switch words[i] {
		case "epoch":
			p.as.Epoch = at
		case "seen":
			p.as.SeenMicros = at
		case "clock":
			p.as.ClockMicros = float64(at)
		default:
			return fmt.Errorf("%q is no part of a caller", words[i])
		}
	}
	return nil
}

func (p *performer) caller() model.Caller {
	c := p.as
	c.ReachMicros = p.reach
	return c
}

func (p *performer) charge(words []string) ([]string, error) {
	what := model.Charge{Spent: number(words[0]), Most: number(words[0])}
	for i := 1; i+1 < len(words); i += 2 {
		switch words[i] {
		case "least":
			what.Least = number(words[i+1])
		case "idle":
			what.Idle = number(words[i+1])
		case "most":
			what.Most = number(words[i+1])
		case "away":
			what.AwayMicros = float64(duration(words[i+1]).Microseconds())
		case "grace":
			what.GraceMicros = float64(duration(words[i+1]).Microseconds())
		default:
			return nil, fmt.Errorf("%q is no part of a charge", words[i])
		}
	}
	return p.grants("charge", chargeArgs(p.limit, p.caller(), what), 0)
}

func (p *performer) run(verb string, args []string) any {
	p.before = p.contents()
	outcomes, err := p.stage.run(step{verb, startMicros + p.now.Microseconds(), args})
	require.NoError(p.t, err)
	if slices.Contains(outcomes[0].expiresMillis, -1) && !p.foreign {
		p.t.Errorf("%s %v: a key never expires: %v", verb, args, outcomes[0].expiresMillis)
	}
	return outcomes[0].reply
}

// failed shows the error of the last run, and whether it changed anything.
func (p *performer) failed(err error) []string {
	text := err.Error()
	if at := strings.Index(text, "WRONGTYPE"); at >= 0 {
		text = text[at:] // before it some servers say where in the script
	}
	after := p.contents()
	if after != p.before {
		p.t.Errorf("%s\nchanged\n%sto\n%s", text, p.before, after)
		return []string{text, "SOMETHING CHANGED"}
	}
	return []string{text, "nothing changed"}
}

func (p *performer) take(rest string) ([]string, error) {
	var requests []model.Request
	for words := range groups(rest) {
		r := model.Request{Cost: number(words[0]), ID: words[1], MaxWaitMicros: -1}
		for i := 2; i < len(words); i++ {
			switch words[i] {
			case "keep":
				r.Keep = true
			case "max":
				i++
				r.MaxWaitMicros = float64(duration(words[i]).Microseconds())
			default:
				return nil, fmt.Errorf("%q is no part of a request", words[i])
			}
		}
		requests = append(requests, r)
	}
	return p.grants("take", takeArgs(p.limit, p.caller(), p.bound, requests), len(requests))
}

func (p *performer) quick(rest string) ([]string, error) {
	var rows []model.Row
	for words := range groups(rest) {
		r := model.Row{Permits: number(words[0]), SlackMicros: p.bound}
		for i := 1; i+1 < len(words); i += 2 {
			switch words[i] {
			case "slack":
				r.SlackMicros = float64(duration(words[i+1]).Microseconds())
			case "extra":
				r.Extra = number(words[i+1])
			case "lasting":
				r.LastingMicros = float64(duration(words[i+1]).Microseconds())
			default:
				return nil, fmt.Errorf("%q is no part of a quick", words[i])
			}
		}
		rows = append(rows, r)
	}
	raw := p.run("quick", quickArgs(p.limit, p.as, rows...))
	if err, failed := raw.(error); failed {
		return p.failed(err), nil
	}
	given, err := parseGiven(raw, len(rows))
	if err != nil {
		return nil, err
	}
	var lines []string
	changed := false
	for k, g := range given {
		if now := startMicros + p.now.Microseconds(); g.SeenMicros != now {
			return nil, fmt.Errorf("reply %v does not say that it is %d", raw, now)
		}
		if g.Before < 0 {
			lines = append(lines, "nothing given")
			continue
		}
		changed = true
		line := fmt.Sprintf("gives %d to %d, after %s, %d idle", g.Before+1, g.Before+g.Permits, micros(g.DueMicros), g.Idle)
		if extra := g.Permits - rows[k].Permits; extra > 0 {
			line += fmt.Sprintf(", %d of them extra", extra)
		}
		lines = append(lines, line)
	}
	if !changed && p.contents() != p.before {
		lines = append(lines, "SOMETHING CHANGED")
	}
	return lines, nil
}

// grants shows the reply of take or claim.
func (p *performer) grants(verb string, args []string, n int) ([]string, error) {
	raw := p.run(verb, args)
	if err, failed := raw.(error); failed {
		return p.failed(err), nil
	}
	reply, err := parseReply(raw)
	if err != nil || len(reply.Grants) != n {
		return nil, fmt.Errorf("reply %v is not for %d tickets (%w)", raw, n, err)
	}
	if now := startMicros + p.now.Microseconds(); reply.SeenMicros != now {
		return nil, fmt.Errorf("reply %v does not say that it is %d", raw, now)
	}
	p.epoch = reply.Epoch
	var lines []string
	for _, g := range reply.Grants {
		switch g.Status {
		case model.Refused:
			lines = append(lines, "refused, would wait "+micros(g.WaitMicros))
		case model.Final:
			lines = append(lines, fmt.Sprintf("final %d in %s", g.Number, micros(g.WaitMicros)))
		case model.Waiting:
			lines = append(lines, fmt.Sprintf("waiting %d in %s", g.Number, micros(g.WaitMicros)))
		default:
			return nil, fmt.Errorf("reply %v has status %d", raw, g.Status)
		}
	}
	last := "final ones reach " + micros(reply.ReachMicros)
	if p.as.Member != "" {
		last += fmt.Sprintf(", %d live", reply.Live)
	}
	if verb == "charge" {
		last += fmt.Sprintf(", %d idle", reply.Idle)
	}
	if reply.Plain {
		last += ", plain"
	}
	if reply.ResumeMicros > 0 {
		last += ", resumes in " + micros(reply.ResumeMicros)
	}
	if reply.PauseMicros > 0 {
		last += ", paused for " + micros(reply.PauseMicros)
	}
	if reply.Gen > 0 {
		last += fmt.Sprintf(", of %d, gen %d", reply.Final, reply.Gen)
	}
	return append(lines, last), nil
}

func micros(m int64) string { return (time.Duration(m) * time.Microsecond).String() }

// moment shows a time on the transcript's clock.
func moment(m int64) string { return micros(m - startMicros) }

func (p *performer) cancel(rest string) ([]string, error) {
	var tickets []model.Cancellation
	for words := range groups(rest) {
		c := model.Cancellation{Cost: number(words[0]), ID: words[1]}
		if byNumber, ok := strings.CutPrefix(c.ID, "#"); ok {
			n, epoch, other := strings.Cut(byNumber, "@")
			c.ID, c.Number, c.Epoch = "", number(n), p.epoch
			if other {
				c.Epoch = startMicros + duration(epoch).Microseconds()
			}
		}
		tickets = append(tickets, c)
	}
	args := cancelArgs(p.limit, p.caller(), tickets)
	list, err := ints(p.run("cancel", args))
	if err != nil {
		return p.failed(err), nil
	}
	var lines []string
	for _, back := range list {
		lines = append(lines, map[int64]string{0: "nothing went back", 1: "went back"}[back])
	}
	return lines, nil
}

func (p *performer) inspect() ([]string, error) {
	args := limitArgs(p.limit)
	reply, err := pairs(p.run("inspect", args))
	if err != nil {
		return p.failed(err), nil
	}
	made := "no state"
	if epoch := reply["epoch"].(int64); epoch != 0 {
		made = "made at " + moment(epoch)
	}
	lines := []string{
		fmt.Sprintf("tail %d, reaches %s, a new ticket waits %s", reply["tail"], micros(reply["reachMicros"].(int64)), micros(reply["waitMicros"].(int64))),
		fmt.Sprintf("%d waiting, %d free, %d live, %s", reply["waiting"], reply["free"], reply["live"], made),
		fmt.Sprintf("interval %s micros, burst %d", reply["intervalMicros"], reply["burst"]),
	}
	switch set := reply["setMicros"].(int64); {
	case set < 0:
		lines = append(lines, "set for all until it is set again")
	case set > 0:
		lines = append(lines, "set for all for "+micros(set))
	}
	if pause := reply["pauseMicros"].(int64); pause > 0 {
		lines = append(lines, fmt.Sprintf("paused for %s: %q", micros(pause), reply["reason"]))
	}
	return lines, nil
}

// show writes what the keys hold and until when.
func (p *performer) show() ([]string, error) {
	outcomes, err := p.stage.run(step{"state", startMicros + p.now.Microseconds(), nil})
	if err != nil {
		return nil, err
	}
	s, err := parseState(outcomes[0].reply)
	if err != nil {
		return nil, err
	}
	if len(s.fields) == 0 {
		return []string{"nothing"}, nil
	}
	f := func(name string) int64 {
		x, err := strconv.ParseFloat(cmp.Or(s.fields[name], "0"), 64)
		if err != nil {
			p.t.Fatalf("field %s is %q", name, s.fields[name])
		}
		return int64(x)
	}
	nextFree, err := strconv.ParseFloat(s.fields["nextFreeTicketMillis"], 64)
	if err != nil {
		return nil, err
	}
	lines := []string{
		fmt.Sprintf("tail %d, next free ticket at %s", f("tail"), moment(int64(nextFree*1000))),
		fmt.Sprintf("anchor %d at %s, interval %s, burst %d", f("anchor"), moment(f("anchorMicros")), micros(f("intervalMicros")), f("burst")),
		fmt.Sprintf("live %d, idle %d", f("live"), f("idle")),
		fmt.Sprintf("final %d, floor %d, free %d, seen at %s, made at %s", f("final"), f("floor"), f("free"), moment(f("seenMicros")), moment(f("epoch"))),
	}
	if f("resumeMicros") > 0 {
		lines = append(lines, "resumes at "+moment(f("resumeMicros")))
	}
	if f("setIntervalMicros") > 0 {
		lines = append(lines, fmt.Sprintf("set for all: interval %s, burst %d, until %s", micros(f("setIntervalMicros")), f("setBurst"), moment(f("setUntilMicros"))))
	}
	if f("pauseMicros") > 0 {
		lines = append(lines, fmt.Sprintf("paused until %s, moved by %s, for %q", moment(f("pauseMicros")), micros(f("pausedMicros")), s.fields["reason"]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		if member, ok := strings.CutPrefix(name, "m:"); ok {
			words := strings.SplitN(s.fields[name], " ", 3)
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s seen at %s, serial %s %s", member, moment(number(words[0])), words[1], words[2])))
		}
	}
	for k, list := range [][]model.Ticket{s.waiting, s.free, s.claimed} {
		name := [...]string{"waiting", "free", "claimed"}[k]
		for _, t := range list {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %d of cost %d %s", name, t.Number, t.Cost, t.ID)))
		}
	}
	for k, millis := range outcomes[0].expiresMillis {
		if millis != 0 {
			lines = append(lines, fmt.Sprintf("%s expires at %s", [...]string{"line", "waiting", "free", "claimed"}[k], moment(millis*1000)))
		}
	}
	return lines, nil
}

// redis performs a command whose first argument names one of the four keys.
func (p *performer) redis(words []string) error {
	index := slices.Index([]string{"line", "waiting", "free", "claimed"}, words[1])
	if index < 0 {
		return fmt.Errorf("%q is none of the keys", words[1])
	}
	args := []any{words[0], p.stage.keys[index]}
	for _, w := range words[2:] {
		if other := slices.Index([]string{"line", "waiting", "free", "claimed"}, w); words[0] == "COPY" && other >= 0 {
			w = p.stage.keys[other]
		}
		args = append(args, strings.ReplaceAll(w, `""`, ""))
	}
	p.foreign = true
	return p.stage.client.Do(context.Background(), args...).Err()
}

// contents are all that the keys hold, with their types and expiries.
func (p *performer) contents() string {
	ctx := context.Background()
	var b strings.Builder
	for _, key := range p.stage.keys[:4] {
		kind, err := p.stage.client.Type(ctx, key).Result()
		require.NoError(p.t, err)
		var content any
		switch kind {
		case "hash":
			content, err = p.stage.client.HGetAll(ctx, key).Result()
		case "zset":
			content, err = p.stage.client.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "string":
			content, err = p.stage.client.Get(ctx, key).Result()
		case "none":
		default:
			err = fmt.Errorf("key %s is a %s", key, kind)
		}
		require.NoError(p.t, err)
		left, err := p.stage.client.PTTL(ctx, key).Result()
		require.NoError(p.t, err)
		fmt.Fprintf(&b, "%s %v %v\n", kind, content, left < 0)
	}
	return b.String()
}
