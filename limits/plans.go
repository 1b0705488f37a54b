package limits

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/fleetpace/fleetpace/reserve"
)

// plans are limits for some keys, which the file gives by name. They never change.
type plans struct {
	version  int64
	all      []plan
	exact    map[string]int // by key: the index of its plan
	patterns []pattern      // in the order of the file
}

type plan struct {
	name  string
	limit reserve.Limit
	keys  []string
}

// pattern is keys of a plan that hold names in braces.
type pattern struct {
	matches *regexp.Regexp
	plan    int
}

// limitOf returns the limit of a key, and its version. The limit of other keys has the version, too, because a key
// may have had a plan before.
func (p *plans) limitOf(key string, other reserve.Limit) (reserve.Limit, int64) {
	if i, ok := p.exact[key]; ok {
		return p.all[i].limit, p.version
	}
	for _, of := range p.patterns {
		if of.matches.MatchString(key) {
			return p.all[of.plan].limit, p.version
		}
	}
	return other, p.version
}

// limitOf returns the function for reserve.Config.LimitOf of a limiter. A limiter that was replaced follows the
// plans of its successor, if that has the same kind of limit.
func (s *Set) limitOf(of settings) func(key string) (reserve.Limit, int64) {
	return func(key string) (reserve.Limit, int64) {
		now, ok := s.table.Load().limits[of.name]
		if !ok || !now.settings.planned || !alike(of.limit, now.settings.limit) {
			return reserve.Limit{}, 0
		}
		return now.plans.limitOf(key, now.settings.limit)
	}
}

// alike reports whether two limits have the same kind and calendar.
func alike(a, b reserve.Limit) bool {
	return a.Kind() == b.Kind() && (a.Kind() != reserve.KindQuota || calendar(a) == calendar(b))
}

// calendar is the calendar of a quota, such as "day quota in Europe/Berlin".
func calendar(l reserve.Limit) string {
	_, text, _ := strings.Cut(l.Margin(0).String(), "/")
	return text
}

// readVersion reads the version of the plans.
func (e *entry) readVersion(text string) (err error) {
	e.plans.version, err = strconv.ParseInt(text, 10, 64)
	if err != nil || e.plans.version < 1 || e.plans.version > reserve.MaxVersion {
		return fmt.Errorf("must be a whole number from 1 to %d, got %q: raise it with each change of the limit and its plans", int64(reserve.MaxVersion), text)
	}
	return nil
}

// readPlans reads the plans, by name.
func (e *entry) readPlans(node *yaml.Node, path string) {
	if !e.file.is(node, yaml.MappingNode, path, "plans by name, such as {gold: {limit: 50/s, keys: [acme]}}") {
		return
	}
	e.settings.planned, e.plans.exact = true, map[string]int{}
	for name, value := range pairs(node) {
		if name.Kind != yaml.ScalarNode {
			e.file.problems.add(name.Line, path, "must be by name, got %s", kindOf(name))
			continue
		}
		of := path + "." + name.Value
		if slices.ContainsFunc(e.plans.all, func(p plan) bool { return p.name == name.Value }) {
			e.file.problems.add(name.Line, of, "is there twice")
			continue
		}
		e.readPlan(name.Value, value, of)
	}
}

func (e *entry) readPlan(name string, node *yaml.Node, path string) {
	problems := &e.file.problems
	if !e.file.is(node, yaml.MappingNode, path, "the fields limit and keys") {
		return
	}
	before := len(*problems)
	p, index, seen := plan{name: name}, len(e.plans.all), map[string]bool{}
	for field, value := range pairs(node) {
		of := path + "." + field.Value
		switch {
		case seen[field.Value]:
			problems.add(field.Line, of, "is there twice")
		case field.Value == "limit":
			if text, ok := e.file.text(value, of, "limit"); ok {
				var err error
				if p.limit, err = reserve.ParseLimit(text); err != nil {
					problems.add(value.Line, of, "%s", reason(err))
				}
			}
		case field.Value == "keys":
			p.keys = e.readKeys(index, value, of)
		default:
			problems.add(field.Line, path, "unknown field %s: there are limit and keys", shown(field))
		}
		seen[field.Value] = true
	}
	for _, field := range []string{"limit", "keys"} {
		if !seen[field] {
			problems.add(node.Line, path, "has no %s", field)
		}
	}
	if len(*problems) == before {
		e.plans.all = append(e.plans.all, p)
	}
}

// readKeys reads the keys of the plan at an index.
func (e *entry) readKeys(index int, node *yaml.Node, path string) (keys []string) {
	if !e.file.is(node, yaml.SequenceNode, path, "a list of keys") {
		return nil
	}
	for i, value := range node.Content {
		of := fmt.Sprintf("%s[%d]", path, i)
		text, ok := e.file.text(value, of, "key")
		if !ok {
			continue
		}
		keys = append(keys, text)
		if !strings.ContainsAny(text, "{}") {
			if _, twice := e.plans.exact[text]; twice {
				e.file.problems.add(value.Line, of, "%.64q has a plan already", text)
			}
			e.plans.exact[text] = index
			continue
		}
		t, err := parseTemplate(text)
		if err != nil {
			e.file.problems.add(value.Line, of, "%v", err)
			continue
		}
		e.plans.patterns = append(e.plans.patterns, pattern{t.pattern(), index})
	}
	return keys
}

// pattern matches the keys that fill makes of the template.
func (t template) pattern() *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i, p := range t.parts {
		b.WriteString(regexp.QuoteMeta(p.before))
		if i+1 < len(t.parts) { // no value before another one holds its mark
			fmt.Fprintf(&b, "[^%s]+", regexp.QuoteMeta(t.parts[i+1].before[:1]))
		} else if t.end != "" && separates(t.end[0]) {
			fmt.Fprintf(&b, "[^%s]+", regexp.QuoteMeta(t.end[:1]))
		} else {
			b.WriteString(".+")
		}
	}
	b.WriteString(regexp.QuoteMeta(t.end))
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// agreePlans checks the plans against the other fields. It returns the field that is wrong.
func (e *entry) agreePlans() (field string, err error) {
	_, versioned := e.lines["version"]
	switch {
	case !e.settings.planned && versioned:
		return "version", errors.New("needs plans")
	case !e.settings.planned:
		return "", nil
	case !versioned:
		return "plans", errors.New("need a version: a number that grows with each change of the limit and its plans, such as 20261126")
	case e.key.text == "":
		return "plans", errors.New("need a key, such as {customer}")
	}
	for _, p := range e.plans.all {
		if (p.limit.Kind() == reserve.KindSlots) != (e.settings.limit.Kind() == reserve.KindSlots) {
			return "plans", fmt.Errorf("%.64q must be slots if the limit is slots, and only then; the limit is %v, got %v", p.name, e.settings.limit, p.limit)
		}
	}
	return "", nil
}

// String returns the version and the number of plans, for the log. It is empty without plans.
func (p *plans) String() string {
	if p.version == 0 {
		return ""
	}
	return fmt.Sprintf(", plans of version %d (%d)", p.version, len(p.all))
}

// same reports whether two versions of plans mean the same.
func (p *plans) same(other *plans) bool {
	return slices.EqualFunc(p.all, other.all, func(a, b plan) bool {
		return a.name == b.name && a.limit == b.limit && slices.Equal(a.keys, b.keys)
	})
}

// follows returns what is wrong with the version of a limit that replaces another one; nil: nothing.
func (n named) follows(before named) error {
	if !n.settings.planned || !before.settings.planned {
		return nil
	}
	was, is := before.plans.version, n.plans.version
	changed := !n.plans.same(before.plans) || n.settings.limit != before.settings.limit
	if is < was || is == was && changed {
		return fmt.Errorf("must be above %d, as the limit or its plans have changed since, got %d", was, is)
	}
	return nil
}
