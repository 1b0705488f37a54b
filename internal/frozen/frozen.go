// Package frozen has the scripts of earlier versions of fleetpace, as they were. It is for tests, which play fleets
// that are upgraded while they run.
//
// # Protocol 3
//
// Testdata has the scripts of the first version of protocol 3. A [Process] runs them in place of the current
// ones: a hook of its client exchanges them, and it hears only the messages that this version understood. All else in
// the process is of the current version. So tests play fleets of both versions: in internal/world (the transcripts
// mixed-*.txt, and a quarter of the histories that are drawn), and as real processes in integration
// (TestMixedProcesses). If such a test fails after a change of the scripts, there are three ways on:
//
//   - Make the change compatible: both versions have to understand the keys, what is in them, and the messages.
//   - If the earlier scripts can never do what the change needs, raise PROTOCOL in lua/head.lua. Use the change only
//     while engine.Speaks says that all processes speak the new protocol. See TestTheNextProtocolWaitsForAll.
//     Otherwise, do what the earlier version does.
//   - If only arguments or replies of a script have changed, both versions send their own. Then
//     translate between the two in Process.run: the engine of the process is the current one.
//
// The copy itself stays as it is: it is what users run. A release copies its scripts to a new folder, and the oldest
// folder goes when nothing shares limits with it any more.
//
// # v0.2
//
// [V02] is a process of v0.2, beside which no later version can work.
package frozen

import (
	"context"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/lua"
)

//go:embed testdata
var files embed.FS

// read returns the text of some files of a version, one after the other.
func read(version string, names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := files.ReadFile("testdata/" + version + "/" + name + ".lua")
		if err != nil {
			panic(err) // the files are in the program
		}
		b.Write(text)
	}
	return b.String()
}

// Protocol is the number of the protocol of the frozen scripts.
const Protocol = 3

// parts are the files of each script, in functions within each other.
var parts = map[string][]string{
	"take":    {"take"},
	"ask":     {"head items common", meters, "shares room bookings heads state ask"},
	"leave":   {"head", meters, "shares room bookings state leave"},
	"settle":  {"head", meters, "shares room state settle"},
	"pause":   {"head", meters, "state pause"},
	"resume":  {"head", meters, "shares room state resume"},
	"set":     {"head", meters, "shares room state set"},
	"level":   {"head", meters, "shares room state level"},
	"inspect": {"head", meters, "state inspect"},
	"beat":    {"beat"},
}

const meters = "meter paced quota rolling warming arguments places slots"

// Current are the texts of the current scripts, by verb.
var Current = func() map[string]string {
	all := map[string]string{}
	for verb, script := range scripts {
		reads := &reader{}
		script.Eval(context.Background(), reads, nil)
		all[verb] = reads.text
	}
	return all
}()

// reader reads the text of a script that it is to run.
type reader struct {
	redis.Scripter
	text string
}

// Eval runs nothing.
func (r *reader) Eval(ctx context.Context, text string, _ []string, _ ...any) *redis.Cmd {
	r.text = text
	return redis.NewCmd(ctx)
}

var scripts = map[string]*redis.Script{
	"take": lua.Take, "ask": lua.Ask, "leave": lua.Leave, "settle": lua.Settle, "pause": lua.Pause,
	"resume": lua.Resume, "set": lua.Set, "level": lua.Level, "inspect": lua.Inspect, "beat": lua.Beat,
}

// Texts are those of the frozen scripts, by verb.
var Texts = func() map[string]string {
	all := map[string]string{}
	for verb, functions := range parts {
		all[verb] = "-- protocol 3\n" // it differs from the current script, even if nothing else does
		for i, names := range functions {
			if i > 0 {
				all[verb] += "return (function()\n"
			}
			all[verb] += read("protocol3", strings.Fields(names)...)
		}
		all[verb] += strings.Repeat("end)()\n", len(functions)-1)
	}
	return all
}()

// Process is a hook of a client. A process that uses the client runs these scripts in place of the current ones.
type Process struct {
	scripts map[string]*redis.Script // by the hash of the current script
	texts   map[*redis.Script]string
}

// New returns a process that runs scripts with these texts, by verb.
func New(texts map[string]string) *Process {
	p := &Process{scripts: map[string]*redis.Script{}, texts: map[*redis.Script]string{}}
	for verb, script := range scripts {
		mine := redis.NewScript(texts[verb])
		p.scripts[script.Hash()], p.texts[mine] = mine, texts[verb]
	}
	return p
}

// DialHook changes nothing.
func (*Process) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing: no pipeline has scripts.
func (*Process) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook exchanges the script of a command.
func (p *Process) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		reply, takes := cmd.(interface{ SetVal(reply any) })
		switch cmd.Name() {
		case "evalsha", "evalsha_ro", "eval", "eval_ro":
			if takes {
				if mine := p.run(ctx, cmd.Args()); mine != nil {
					err := next(ctx, mine)
					reply.SetVal(mine.Val())
					cmd.SetErr(err)
					return err
				}
			}
		}
		return next(ctx, cmd)
	}
}

// run returns the command that runs the script of this process, or nil.
func (p *Process) run(ctx context.Context, args []any) *once {
	given, _ := args[1].(string)
	script := p.scripts[given]
	args = slices.Clone(args)
	if script != nil {
		args[1] = script.Hash()
	} else if script = p.scripts[redis.NewScript(given).Hash()]; script != nil {
		args[1] = p.texts[script]
	} else {
		return nil
	}
	switch p.texts[script] {
	case Texts["settle"]:
		args = withoutFlows(args)
	case Texts["take"]:
		args = withoutGroups(args)
	}
	cmd := &once{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// withoutFlows drops the fifth value of each item of settle: protocol 3 does not know it.
func withoutFlows(args []any) []any {
	const items, of, ofEach = 3 + lua.ArgsOfAll, lua.ArgsOfLimit + lua.KeysOfLimit, lua.KeysOfLimit
	keys, _ := strconv.Atoi(fmt.Sprint(args[2]))
	for i := items + keys/ofEach*of + 4; i < len(args); i += 4 {
		args = slices.Delete(args, i, i+1)
	}
	return args
}

// withoutGroups lets each limit of take have its terms: protocol 3 does not know groups of limits.
func withoutGroups(args []any) []any {
	const own, terms, width = 5, 5, 4
	keys, _ := strconv.Atoi(fmt.Sprint(args[2]))
	k := 3 + keys + own
	each := slices.Clone(args[:k])
	for k < len(args) {
		limits, _ := strconv.Atoi(fmt.Sprint(args[k]))
		a, b, count, cost := args[k+1], args[k+2], args[k+3], args[k+4]
		k += terms
		for range limits {
			known, version, clock, within := args[k], args[k+1], args[k+2], args[k+3]
			each = append(each, known, a, b, version, clock, count, cost, within)
			k += width
		}
	}
	return each
}

// once is a command that the client sends once, as the commands of package wire.
type once struct{ *redis.Cmd }

// NoRetry says so.
func (once) NoRetry() bool { return true }

// These are the messages that protocol 3 understands. Of "news", it understands each word for itself: another word
// makes waiting calls ask, like "left". Other messages say nothing to it.
var (
	messages = regexp.MustCompile(`^(dead \S+|limit \d+ .+|protocol \d+|news \S+ \d+ .+)$`)
	words    = regexp.MustCompile(`^(until:\d+|paused|resumed|limit:[^:]+:[^:]+|overdue:\S+|room:[^:]+:\d+)$`)
	known    = regexp.MustCompile(`^(until|paused|resumed|limit|overdue|room)\b`)
)

// Hears returns a message as a process of protocol 3 understands it.
func Hears(message string) (heard string, ok bool) {
	if !messages.MatchString(message) {
		return "", false
	}
	all := strings.SplitN(message, " ", 3)
	if all[0] != "news" {
		return message, true
	}
	var kept []string
	for _, word := range strings.Split(all[1], ",") {
		switch {
		case words.MatchString(word):
			kept = append(kept, word)
		case !known.MatchString(word):
			kept = append(kept, "left")
		}
	}
	return "news " + strings.Join(kept, ",") + " " + all[2], len(kept) > 0
}
