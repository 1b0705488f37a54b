package world

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// String returns the transcript of a plan, which readPlan reads.
func (p *plan) String() string {
	var b strings.Builder
	line := func(word string, pairs ...any) {
		b.WriteString(word)
		for i := 0; i < len(pairs); i += 2 {
			if text := fmt.Sprint(pairs[i+1]); text != "0" && text != "0s" && text != "" && text != "false" {
				if strings.Contains(text, " ") {
					text = strconv.Quote(text)
				}
				fmt.Fprintf(&b, " %s=%s", pairs[i], text)
			}
		}
		b.WriteString("\n")
	}
	line("world", "seed", p.seed, "policy", p.policy, "clock", p.clock, "until", p.until)
	for _, l := range p.limits {
		line("limit", "name", l.name, "is", l.limit, "settles", l.settles, "lease", l.lease)
	}
	for i, q := range p.processes {
		line("process", "number", fmt.Sprintf("#%d", i), "trip", q.trip, "timeout", q.timeout, "version", q.version)
	}
	for _, l := range p.loads {
		line("load", "callers", l.callers, "of", processName(l.process), "need", needText(l.parts), "keys", l.keys, "begin", l.begin, "apart", l.apart,
			"calls", l.calls, "think", l.think, "lasts", l.lasts, "used", l.used, "deadline", l.deadline, "retry", l.retry,
			"quits", l.quits, "patience", l.patience, "books", l.books, "returns", l.returns, "stays", l.stays, "now", l.now, "lapses", l.lapses, "flow", l.flow, "weight", l.weight, "urgent", l.urgent)
	}
	for i := range p.events {
		b.WriteString(p.events[i].String() + "\n")
	}
	for _, e := range p.expects {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

// String returns the line of an event in a transcript.
func (e *event) String() string {
	text := fmt.Sprintf("%v %s", e.at, e.what)
	add := func(name string, value any, is bool) {
		if is {
			text += fmt.Sprintf(" %s=%v", name, value)
		}
	}
	add("for", e.lasts, e.lasts > 0)
	add("of", processName(e.process), e.process != anybody)
	add("limit", e.limit, e.limit > 0)
	add("chance", e.chance, e.chance > 0)
	add("by", e.by, e.by != 0)
	add("to", strconv.Quote(e.to), e.to != "")
	add("key", e.key, e.key != "")
	add("keys", e.keys, e.keys > 0)
	return text
}

func processName(n int) string {
	if n == anybody {
		return "all"
	}
	return fmt.Sprintf("#%d", n)
}

// needText returns what calls need: "0:3+1/key:1" is up to three permits of limit 0 and one of a key of
// limit 1.
func needText(parts []part) string {
	var texts []string
	for _, p := range parts {
		text := strconv.Itoa(p.limit)
		if p.limit == anyLimit {
			text = "any"
		}
		if p.key != "" {
			text += "/" + p.key
		}
		texts = append(texts, fmt.Sprintf("%s:%d", text, p.cost))
	}
	return strings.Join(texts, "+")
}

// fields reads the words of a line, name=value, and keeps the first error.
type fields struct {
	values map[string]string
	err    error
}

func get[T any](f *fields, name string, read func(string) (T, error)) (v T) {
	text, ok := f.values[name]
	if !ok {
		return v
	}
	delete(f.values, name)
	v, err := read(text)
	if err != nil {
		f.err = errors.Join(f.err, fmt.Errorf("%s: %w", name, err))
	}
	return v
}

func asIs(text string) (string, error) { return text, nil }

func float(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

func asProcess(text string) (int, error) {
	if text == "all" {
		return anybody, nil
	}
	return strconv.Atoi(strings.TrimPrefix(text, "#"))
}

func asNeed(text string) (parts []part, err error) {
	for _, one := range strings.Split(text, "+") {
		name, cost, _ := strings.Cut(one, ":")
		limit, key, _ := strings.Cut(name, "/")
		p := part{key: key}
		var errs [2]error
		if p.limit = anyLimit; limit != "any" {
			p.limit, errs[0] = strconv.Atoi(limit)
		}
		p.cost, errs[1] = strconv.Atoi(cost)
		if err = errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// split cuts a line into words; text in quotes is one word.
func split(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(c rune) bool {
		quoted = quoted != (c == '"')
		return c == ' ' && !quoted
	})
}

// readPlan reads a transcript. Lines that begin with # contain what happened.
func readPlan(text string) (*plan, error) {
	p := &plan{}
	for line := range strings.Lines(text) {
		words := split(strings.TrimSpace(line))
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		f := &fields{values: map[string]string{}}
		for _, word := range words[1:] {
			if name, value, ok := strings.Cut(word, "="); ok {
				f.values[name] = strings.Trim(value, `"`)
			}
		}
		p.take(words, f)
		if f.err != nil || len(f.values) > 0 {
			return nil, fmt.Errorf("%q: %w, unknown %v", strings.TrimSpace(line), f.err, f.values)
		}
	}
	return p, p.check()
}

// take adds a line of a transcript.
func (p *plan) take(words []string, f *fields) {
	switch words[0] {
	case "world":
		p.seed = get(f, "seed", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
		p.policy = get(f, "policy", reserve.ParsePolicy)
		p.clock = get(f, "clock", time.ParseDuration)
		p.until = get(f, "until", time.ParseDuration)
	case "limit":
		p.limits = append(p.limits, limitPlan{
			name: get(f, "name", asIs), limit: get(f, "is", reserve.ParseLimit),
			settles: get(f, "settles", strconv.ParseBool), lease: get(f, "lease", time.ParseDuration),
		})
	case "process":
		get(f, "number", asIs)
		p.processes = append(p.processes, processPlan{get(f, "trip", time.ParseDuration), get(f, "timeout", time.ParseDuration), get(f, "version", asIs)})
	case "load":
		p.loads = append(p.loads, load{
			callers: get(f, "callers", strconv.Atoi), process: get(f, "of", asProcess), parts: get(f, "need", asNeed), keys: get(f, "keys", strconv.Atoi),
			begin: get(f, "begin", time.ParseDuration), apart: get(f, "apart", time.ParseDuration), calls: get(f, "calls", strconv.Atoi),
			think: get(f, "think", time.ParseDuration), lasts: get(f, "lasts", time.ParseDuration), used: get(f, "used", float),
			deadline: get(f, "deadline", time.ParseDuration), retry: get(f, "retry", time.ParseDuration),
			quits: get(f, "quits", float), patience: get(f, "patience", time.ParseDuration),
			books: get(f, "books", float), returns: get(f, "returns", float), stays: get(f, "stays", time.ParseDuration), now: get(f, "now", strconv.ParseBool), lapses: get(f, "lapses", time.ParseDuration), flow: get(f, "flow", asIs), weight: get(f, "weight", float), urgent: get(f, "urgent", strconv.ParseBool),
		})
	case "expect":
		e := expectation{
			permits: get(f, "permits", float), most: get(f, "most", float), limit: get(f, "limit", strconv.Atoi), planned: get(f, "planned", strconv.ParseBool),
			from: get(f, "from", time.ParseDuration), until: get(f, "until", time.ParseDuration), wait: get(f, "wait", time.ParseDuration), follow: -1,
		}
		if f.values["follow"] != "" {
			e.follow = get(f, "follow", strconv.Atoi)
		}
		p.expects = append(p.expects, e)
	default:
		at, err := time.ParseDuration(words[0])
		if err != nil || len(words) < 2 {
			f.err = errors.Join(f.err, fmt.Errorf("a line begins with world, limit, process, load, expect, or the time of an event"))
			return
		}
		e := event{
			at: at, what: words[1], lasts: get(f, "for", time.ParseDuration), process: anybody, limit: get(f, "limit", strconv.Atoi),
			chance: get(f, "chance", float), by: get(f, "by", time.ParseDuration), to: get(f, "to", asIs), key: get(f, "key", asIs), keys: get(f, "keys", strconv.Atoi),
		}
		if f.values["of"] != "" {
			e.process = get(f, "of", asProcess)
		}
		p.events = append(p.events, e)
	}
}

// check reports references of a plan to parts that it does not have.
func (p *plan) check() error {
	if len(p.processes) == 0 || len(p.limits) == 0 || p.until == 0 {
		return errors.New("a world has processes, limits and an end")
	}
	for _, l := range p.loads {
		for _, part := range l.parts {
			if part.limit >= len(p.limits) || part.cost < 1 {
				return fmt.Errorf("calls need limit %d, at a cost of %d", part.limit, part.cost)
			}
		}
	}
	for _, q := range p.processes {
		if !slices.Contains([]string{"", earlier, later}, q.version) {
			return fmt.Errorf("unknown version %q", q.version)
		}
	}
	for i := range p.events {
		e := &p.events[i]
		known := slices.Concat(ofMessages, ofTheWay, ofTheServer, ofMoments, ofProcesses, ofOperators)
		if !slices.Contains(known, e.what) || e.limit >= len(p.limits) {
			return fmt.Errorf("unknown event, or limit: %v", e)
		}
		if e.what == set || e.what == other || e.what == replan {
			if _, err := reserve.ParseLimit(e.to); err != nil {
				return err
			}
		}
	}
	return nil
}
