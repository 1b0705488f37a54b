package lua

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

var flagUpdate = flag.Bool("update", false, "write what the scripts reply into testdata/*.txt")

// TestTranscripts runs testdata/*.txt, alike on miniredis and on real Redis. In these files a
// line that starts with a space is what the command above it leads to, and # starts a comment.
// Times are on a clock that only "at" moves; those that are shown as @1s are moments on it.
//
//	limit api p 1s 2              a limit, its kind, a and b; of a quota, then its edges
//	as a run=x way=1ms …          who makes later calls: also serial (grows by itself), horizon,
//	                              near, grace, rank, back=a:1; forgets: it remembers nothing
//	at 1.5s                       the clock, which may go back
//	ask #1 api; #2 api 2 day 1    calls, by number: limits and costs. Before the number: x3
//	                              alike, settles, now, within=1s, ahead=1s, id=job patience=1s latest=5s;
//	                              behind a cost @ and the tag
//	leave place 1 api 1           also: turn a:1 api 0; book 1@0s/job api 1; drop job api 1;
//	                              of slots done 1 api 1:what; keep 1@0s api 1:what
//	settle a:1 api 2 1            what was used; away=3s in place of a call
//	pause 5s api; resume api; set api 2s 1 for=10s; reset api; inspect api
//	level api 3 0; level api all 1
//	beat 10 10/s                  the heartbeat: pace and limit
//	show api                      what the keys hold
//	lose api                      delete the keys
//	dump api, rollback api        keep what they hold, and bring it back
//	redis HSET api:state x y      a command on one of the keys: state, places, log, processes, booked
//	but 3=2000000 ask #1 api      a call with another ARGV, which counts from 1
//
// A caller brings what it remembers of its last reply. After an error all that the keys hold
// is compared with what they held before the call.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				before, err := os.ReadFile(file)
				require.NoError(t, err)
				p := &performer{T: t, client: server.Client(t), prefix: redistest.Prefix(t), memory: map[string]remembered{}}
				after := p.perform(string(before))
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
	*testing.T
	client *redis.Client
	prefix string
	now    time.Duration
	limits []*scriptLimit
	who    map[string]string
	serial int
	memory map[string]remembered // by process and limit
	but    map[int]string
	dumped map[string][]string
}

type scriptLimit struct {
	name, kind, a, b string
	edges            []string
	keys             []string
}

// remembered is what a caller keeps of a reply.
type remembered struct {
	known, version, reach string
	at                    time.Duration
}

// perform returns the transcript with what its commands lead to now.
func (p *performer) perform(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, " ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p.but = map[int]string{}
		for _, r := range p.command(strings.Fields(line)) {
			out.WriteString("  " + r + "\n")
		}
	}
	return out.String()
}

func (p *performer) command(w []string) []string {
	p.Helper()
	switch verb := w[0]; verb {
	case "limit":
		l := &scriptLimit{name: w[1], kind: w[2], a: w[3], b: w[4], keys: Keys(p.prefix, "", w[1], w[2], "")}
		if w[2] == "p" || w[2] == "w" {
			l.a = p.micros(w[3])
		}
		if w[2] != "p" && w[2] != "s" {
			l.b = p.micros(w[4])
		}
		for _, edge := range w[5:] {
			l.edges = append(l.edges, p.moment(edge))
		}
		p.limits = append(p.limits, l)
	case "as":
		p.who = map[string]string{"name": w[1], "way": "0s", "horizon": "250ms", "near": "5ms", "grace": "300ms"}
		for _, option := range w[2:] {
			name, value, _ := strings.Cut(option, "=")
			p.who[name] = value
		}
		if _, ok := p.who["forgets"]; ok {
			maps.DeleteFunc(p.memory, func(key string, _ remembered) bool { return strings.HasPrefix(key, w[1]+" ") })
		}
	case "at":
		p.now = p.duration(w[1])
	case "but":
		index, value, _ := strings.Cut(w[1], "=")
		p.but[p.number(index)] = strings.ReplaceAll(value, "_", " ")
		return p.command(w[2:])
	case "ask":
		return p.ask(w[1:])
	case "leave", "settle", "pause", "resume", "level", "set", "reset", "inspect":
		return p.verb(verb, w[1:])
	case "beat":
		args := []any{p.moment(p.now.String()), p.who["name"], p.micros("3s"), "", "1", fmt.Sprint(Protocol), "p", w[1], w[2], ""}
		v, err := Beat.Run(p.Context(), p.client, BeatKeys(p.prefix, "", "api"), p.butted(args)...).Slice()
		if err != nil {
			return []string{err.Error()}
		}
		return []string{fmt.Sprintf("known %v, %v live, rank %v: %v", v[1], v[5], v[6], v[7])}
	case "show":
		return p.show(p.limit(w[1]))
	case "lose":
		require.NoError(p, p.client.Del(p.Context(), p.limit(w[1]).keys...).Err())
	case "dump":
		p.dumped = map[string][]string{}
		for _, key := range p.limit(w[1]).keys {
			p.dumped[key] = content(p, p.client, key)
		}
	case "rollback":
		for _, key := range p.limit(w[1]).keys {
			p.restore(key)
		}
	case "redis":
		name, key, _ := strings.Cut(w[2], ":")
		index := slices.Index([]string{"state", "places", "log", "processes", "booked", "flows"}, key)
		args := []any{w[1], p.limit(name).keys[index]}
		for _, arg := range w[3:] {
			args = append(args, strings.ReplaceAll(arg, "_", " "))
		}
		require.NoError(p, p.client.Do(p.Context(), args...).Err())
	default:
		p.Fatalf("%q is no command", w)
	}
	return nil
}

// restore brings back what a key held.
func (p *performer) restore(key string) {
	hash := p.client.Type(p.Context(), key).Val() == "hash"
	require.NoError(p, p.client.Del(p.Context(), key).Err())
	for _, line := range p.dumped[key] {
		first, second, _ := strings.Cut(line, " ")
		if hash {
			require.NoError(p, p.client.HSet(p.Context(), key, first, second).Err())
		} else {
			require.NoError(p, p.client.Do(p.Context(), "ZADD", key, first, second).Err())
		}
		require.NoError(p, p.client.Expire(p.Context(), key, time.Hour).Err())
	}
}

func (p *performer) limit(name string) *scriptLimit {
	for _, l := range p.limits {
		if l.name == name {
			return l
		}
	}
	p.Fatalf("%q is no limit", name)
	return nil
}

func (p *performer) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	require.NoError(p, err)
	return d
}

func (p *performer) number(word string) int {
	n, err := strconv.Atoi(word)
	require.NoError(p, err)
	return n
}

func (p *performer) micros(word string) string {
	return strconv.FormatInt(p.duration(word).Microseconds(), 10)
}

// moment is a time of the transcript's clock as a text for Redis.
func (p *performer) moment(word string) string {
	return strconv.FormatInt(startMicros+p.duration(word).Microseconds(), 10)
}

// head are the arguments that all scripts have, for some limits.
func (p *performer) head(limits []*scriptLimit) []any {
	if serial := p.who["serial"]; serial != "" {
		p.serial = p.number(serial)
		delete(p.who, "serial")
	} else {
		p.serial++
	}
	args := []any{p.moment(p.now.String())}
	for _, name := range []string{"way", "horizon", "near", "grace"} {
		args = append(args, p.micros(p.who[name]))
	}
	args = append(args, p.who["run"], p.who["name"], p.serial, "")
	for _, l := range limits {
		rank, clock := "0", "0"
		if p.who["rank"] != "" {
			rank = p.who["rank"]
		}
		m, ok := p.memory[p.who["name"]+" "+l.name]
		if !ok {
			m.version = "0"
		} else if clock = p.moment(p.now.String()); p.who["clock"] != "" {
			clock = p.moment(p.who["clock"])
		}
		args = append(args, l.kind, l.a, l.b, rank, m.known, m.version, p.aged(l, m), strings.ReplaceAll(p.who["back"], ":", " "),
			strings.Join(l.edges, " "), clock)
	}
	delete(p.who, "back")
	return args
}

// aged is a reach as it is now.
func (p *performer) aged(l *scriptLimit, m remembered) string {
	fields := strings.Fields(m.reach)
	i := map[string]int{"p": 0, "w": 0, "r": 1, "s": 1, "q": 9}[l.kind]
	if i < len(fields) {
		fields[i] = strconv.FormatInt(int64(p.number(fields[i]))-(p.now-m.at).Microseconds(), 10)
	}
	return strings.Join(fields, " ")
}

func (p *performer) butted(args []any) []any {
	for index, value := range p.but {
		args[index-1] = value
	}
	return args
}

// call makes a script call, and returns what is told of its limits, and the rest of the reply.
func (p *performer) call(script *redis.Script, limits []*scriptLimit, extra []any) (lines []string, rest *reply) {
	p.Helper()
	var keys []string
	for _, l := range limits {
		keys = append(keys, l.keys...)
	}
	args := p.butted(append(p.head(limits), extra...))
	before := p.contents(limits)
	run := script.Run
	if script == Inspect { // Redis refuses what a read-only script writes
		run = script.RunRO
	}
	v, err := run(p.Context(), p.client, keys, args...).Slice()
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), " script:")
		return append([]string{text}, p.unchanged(limits, before)...), nil
	}
	rest = &reply{values: v}
	require.Equal(p, args[0], rest.word())
	refused := false
	for _, l := range limits {
		version, reach, known, problem := rest.word(), rest.word(), rest.word(), rest.word()
		switch {
		case problem != "":
			lines, refused = append(lines, fmt.Sprintf("%s: %s", l.name, problem)), true
		case version != "":
			m := p.memory[p.who["name"]+" "+l.name]
			if known != "" {
				lines = append(lines, fmt.Sprintf("%s is %s", l.name, p.relative(known)))
				m.known = strings.TrimPrefix(known, "~")
			}
			m.version, m.reach, m.at = version, reach, p.now
			p.memory[p.who["name"]+" "+l.name] = m
		}
	}
	if refused && len(limits) == 1 {
		lines = append(lines, p.unchanged(limits, before)...)
	}
	for _, key := range keys {
		if !strings.HasSuffix(key, ":processes") && !refused {
			ttl := p.client.PTTL(p.Context(), key).Val()
			require.NotEqual(p, time.Duration(-1), ttl, "%s never expires", key)
		}
	}
	return lines, rest
}

func (p *performer) unchanged(limits []*scriptLimit, before string) []string {
	if p.contents(limits) == before {
		return []string{"nothing changed"}
	}
	p.Errorf("a refused call changed\n%s", before)
	return nil
}

func (p *performer) contents(limits []*scriptLimit) string {
	var b strings.Builder
	for _, l := range limits {
		for _, key := range l.keys {
			fmt.Fprintln(&b, p.client.Type(p.Context(), key).Val(), content(p, p.client, key))
		}
	}
	return b.String()
}

// content is what a key holds, in lines.
func content(t testing.TB, client *redis.Client, key string) (lines []string) {
	ctx := context.Background()
	switch client.Type(ctx, key).Val() {
	case "hash":
		all := client.HGetAll(ctx, key).Val()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			lines = append(lines, name+" "+all[name])
		}
	case "zset":
		for _, z := range client.ZRangeWithScores(ctx, key, 0, -1).Val() {
			lines = append(lines, fmt.Sprintf("%s %v", strconv.FormatFloat(z.Score, 'f', 0, 64), z.Member))
		}
	case "string":
		lines = append(lines, client.Get(ctx, key).Val())
	}
	return lines
}

var stamp = regexp.MustCompile(`\b1[67]\d{14}\b`)

// relative shows moments as times on the transcript's clock.
func (*performer) relative(text string) string {
	return stamp.ReplaceAllStringFunc(text, func(micros string) string {
		n, _ := strconv.ParseInt(micros, 10, 64)
		return "@" + span(n-startMicros)
	})
}

func span(micros int64) string { return (time.Duration(micros) * time.Microsecond).String() }

// show writes what the keys hold.
func (p *performer) show(l *scriptLimit) (lines []string) {
	for i, key := range l.keys {
		for _, line := range content(p, p.client, key) {
			nothing := strings.HasSuffix(line, " ") || strings.HasSuffix(line, " 0") && len(strings.Fields(line)) == 2 ||
				line == "queue 0 0 0 0 0 0 0 0 0" || line == fmt.Sprint("protocol ", Protocol)
			if nothing && i == 0 {
				continue
			}
			lines = append(lines, [...]string{"", "place ", "log ", "process ", "booked ", "flow "}[i]+p.relative(line))
		}
	}
	if len(lines) == 0 {
		return []string{"nothing"}
	}
	return lines
}
