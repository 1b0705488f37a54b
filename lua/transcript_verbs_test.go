package lua

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// asked is an item of an ask.
type asked struct {
	count, parts int
	settles      bool
	args         []any
}

// ask makes calls, which a semicolon divides.
func (p *performer) ask(w []string) []string {
	p.Helper()
	var limits []*scriptLimit
	var items []asked
	var extra []any
	for _, item := range strings.Split(strings.Join(w, " "), "; ") {
		a := p.item(strings.Fields(item), &limits)
		items, extra = append(items, a), append(extra, a.args...)
	}
	lines, r := p.call(Ask, limits, extra)
	if r == nil {
		return lines
	}
	for _, item := range items {
		if r.number() == 1 {
			lines = append(lines, fmt.Sprintf("%d at once, the last one in %s", item.count, span(int64(r.number()))))
			continue
		}
		for range int(r.number()) {
			status, wait, third := int(r.number()), span(int64(r.number())), r.word()
			line := [...]string{"place", "turn", "refused", "booked", "too late"}[status] + " in " + wait
			switch status {
			case 1:
				line += ", until " + span(int64(p.number(third)))
			case 2:
				line = "refused: " + third
			default:
				line += ", waits for " + third
			}
			name := ", tag"
			if item.settles && status == 1 {
				name = ", record"
			}
			for range item.parts {
				if tag := r.word(); tag != "" {
					line += name + " " + p.relative(tag)
				}
			}
			lines = append(lines, line)
		}
	}
	if r.err != nil || len(r.values) > 0 {
		p.Fatalf("%v, and %v is left", r.err, r.values)
	}
	return lines
}

// item reads one call.
func (p *performer) item(w []string, limits *[]*scriptLimit) (a asked) {
	p.Helper()
	how, number, options := 0, "", map[string]string{}
	var parts [][]any
	a.count = 1
	for _, word := range w {
		name, value, option := strings.Cut(word, "=")
		switch {
		case option:
			options[name] = value
		case word == "settles":
			how, a.settles = how+1, true
		case word == "now":
			how += 2
		case word[0] == 'x':
			a.count = p.number(word[1:])
		case word[0] == '#':
			number = word[1:]
		case word[0] >= 'a':
			l := p.limit(word)
			if !slices.Contains(*limits, l) {
				*limits = append(*limits, l)
			}
			parts = append(parts, []any{slices.Index(*limits, l) + 1, "1", ""})
		default:
			cost, tag, tagged := strings.Cut(word, "@")
			last := parts[len(parts)-1]
			if cost != "" {
				last[1] = cost
			}
			if tagged {
				last[2] = p.moment(tag)
			}
		}
	}
	switch {
	case options["ahead"] != "":
		a.args = []any{a.count, number, 8, p.micros(options["ahead"])}
	case options["id"] != "":
		latest := "9000000000000000"
		if options["latest"] != "" {
			latest = p.micros(options["latest"])
		}
		a.args = []any{a.count, number, how + 4, options["id"], p.micros(options["patience"]), latest}
	default:
		a.args = []any{a.count, number, how}
	}
	if within := options["within"]; within != "" {
		a.args[2] = a.args[2].(int) + 32
		a.args = slices.Insert(a.args, 3, any(p.micros(within)))
	}
	if flow := options["flow"]; flow != "" { // name,weight,urgent
		words := strings.Split(flow, ",")
		words = append(words, []string{"1", "0"}[len(words)-1:]...)
		a.args[2] = a.args[2].(int) + 16
		a.args = slices.Insert(a.args, 3, any(words[1]), any(words[2]), any(words[0]))
	}
	a.parts = len(parts)
	a.args = append(a.args, len(parts))
	for _, part := range parts {
		a.args = append(a.args, part...)
	}
	return a
}

// verb makes one of the other calls, of one limit.
func (p *performer) verb(verb string, w []string) []string {
	p.Helper()
	switch verb {
	case "leave": // what which limit cost
		which := w[1]
		switch number, rest, _ := strings.Cut(which, "@"); w[0] {
		case "turn":
			which = strings.ReplaceAll(which, ":", " ")
		case "book":
			tag, id, _ := strings.Cut(rest, "/")
			which = number + " " + p.moment(tag) + " " + id
		case "keep":
			which = number + " " + p.moment(rest)
		}
		return p.plain(Leave, w[2], []any{1, w[0], which, w[3]}, "%v permits")
	case "settle": // call limit cost used, and flow,weight
		if away, ok := strings.CutPrefix(w[0], "away="); ok {
			return p.plain(Settle, w[1], []any{1, "", p.micros(away), w[2], ""}, "changed %v")
		}
		flow := ""
		if len(w) > 4 {
			name, weight, _ := strings.Cut(strings.TrimPrefix(w[4], "flow="), ",")
			flow = weight + ":" + name
		}
		return p.plain(Settle, w[1], []any{1, w[0], w[2], w[3], flow}, "changed %v")
	case "pause":
		return p.plain(Pause, w[1], []any{p.micros(w[0]), "told so"}, "for %v µs")
	case "resume":
		return p.plain(Resume, w[0], nil, "ended %v")
	case "level":
		return p.plain(Level, w[0], []any{strings.TrimPrefix(w[1], "all"), w[2]}, "left %v, changed %v")
	case "set":
		micros := "0"
		if len(w) > 3 {
			micros = p.micros(strings.TrimPrefix(w[3], "for="))
		}
		return p.plain(Set, w[0], []any{p.micros(w[1]), w[2], micros}, "")
	case "reset":
		return p.plain(Set, w[0], []any{"", "", "0"}, "")
	default:
		return p.inspect(w[0])
	}
}

func (p *performer) inspect(limit string) []string {
	p.Helper()
	lines, r := p.call(Inspect, []*scriptLimit{p.limit(limit)}, nil)
	if r == nil {
		return lines
	}
	const fields = 10 // and those who hold slots
	format := "in force %v; next in %v µs; %v wait for %v permits; paused for %v µs, %q; set for %v µs; %v booked; %v stored; %v live"
	if len(r.values) > fields {
		format += "; %v hold some"
		for k := fields + 1; k < len(r.values); k += 2 {
			format += ": %v for %v µs"
		}
	}
	return append(lines, fmt.Sprintf(format, r.values...))
}

// plain makes a call of one limit, and shows what comes behind its head.
func (p *performer) plain(script *redis.Script, limit string, extra []any, format string) []string {
	p.Helper()
	lines, r := p.call(script, []*scriptLimit{p.limit(limit)}, extra)
	if r != nil && format != "" {
		lines = append(lines, fmt.Sprintf(format, r.values...))
	}
	return lines
}
