package limits

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"go.yaml.in/yaml/v4"

	"github.com/fleetpace/fleetpace/reserve"
)

// limitsField is the one field of the file.
const limitsField = "limits"

// entry is one limit of a file.
type entry struct {
	settings settings
	key      template
	flows    flows
	plans    *plans
	kind     string // as the file says; empty: it does not

	file  *parser
	path  string
	lines map[string]int // of the fields that it has
}

// parser walks through a file and goes on behind what is wrong, to find all of it.
type parser struct {
	client   redis.UniversalClient // for reserve, which asks nothing of it
	defaults reserve.Config
	problems problems
	names    map[string]int // of limits: the lines
}

// parse returns the limits of a file in their order, or an *Error that tells all that is
// wrong in it. Syntax that cannot be read hides what comes after it.
func parse(client redis.UniversalClient, file string, data []byte, defaults reserve.Config) ([]*entry, error) {
	p := &parser{client: client, defaults: defaults, names: make(map[string]int)}
	entries := p.document(data)
	if err := p.problems.in(file); err != nil {
		return nil, err
	}
	return entries, nil
}

func (p *parser) document(data []byte) []*entry {
	if len(data) > maxFile {
		p.problems.add(0, "", "is larger than %d bytes", maxFile)
		return nil
	}
	if p.problems = unreadable(data); len(p.problems) > 0 {
		return nil
	}
	var stream []yaml.Node
	if err := guard(func() error { return yaml.Load(data, &stream, yaml.WithAllDocuments()) }); err != nil {
		p.syntax(err)
		return nil
	}
	switch {
	case len(stream) == 0 || len(stream[0].Content) == 0 || stream[0].Content[0].ShortTag() == "!!null":
		p.problems.add(0, "", "is empty: it needs a list named %s", limitsField)
		return nil
	case len(stream) > 1:
		p.problems.add(stream[1].Line, "", "must be one document, and here begins another")
	}
	return p.file(stream[0].Content[0])
}

// guard makes an error of a panic. The parser has some for what it holds impossible, and a
// file that is read again must not end a program that runs well with the last one.
func guard(load func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be read as YAML: %v", r)
		}
	}()
	return load()
}

// syntax tells what is no YAML.
func (p *parser) syntax(err error) {
	var load *yaml.LoadError
	if !errors.As(err, &load) {
		p.problems.add(0, "", "%v", err)
		return
	}
	text := load.Message
	if load.ContextMsg != "" {
		text += ", " + load.ContextMsg
		if began := load.ContextMark.Line; began > 0 && began != load.Mark.Line {
			text += fmt.Sprintf(" that begins in line %d", began)
		}
	}
	p.problems.add(load.Mark.Line, "", "%s", text)
}

func (p *parser) file(root *yaml.Node) []*entry {
	if !p.is(root, yaml.MappingNode, "", "one field, "+limitsField) {
		return nil
	}
	var list *yaml.Node
	var first int
	for name, value := range pairs(root) {
		switch {
		case name.Kind != yaml.ScalarNode || name.Value != limitsField:
			p.problems.add(name.Line, "", "unknown field %s: there is only %s", shown(name), limitsField)
		case list != nil:
			p.problems.add(name.Line, limitsField, "is there twice, first in line %d", first)
		default:
			list, first = value, name.Line
		}
	}
	if list == nil {
		p.problems.add(root.Line, "", "has no list named %s", limitsField)
		return nil
	}
	if !p.is(list, yaml.SequenceNode, limitsField, "a list") {
		return nil
	}
	if len(list.Content) == 0 {
		p.problems.add(list.Line, limitsField, "must not be empty")
	}
	entries := make([]*entry, 0, len(list.Content))
	for i, node := range list.Content {
		entries = append(entries, p.entry(node, fmt.Sprintf("%s[%d]", limitsField, i)))
	}
	return entries
}

func (p *parser) entry(node *yaml.Node, path string) *entry {
	e := &entry{settings: unsaid(p.defaults), file: p, path: path, plans: &plans{}, lines: make(map[string]int)}
	if !p.is(node, yaml.MappingNode, path, "fields, such as name and limit") {
		return e
	}
	before := len(p.problems)
	for name, value := range pairs(node) {
		e.field(name, value)
	}
	if missing := e.missing(); missing != "" {
		p.problems.add(node.Line, path, "has no %s", missing)
	}
	if len(p.problems) > before {
		return e
	}
	if field, err := e.agree(); err != nil {
		p.problems.add(e.lines[field], path+"."+field, "%v", err)
		return e
	}
	if err := e.settings.validate(p.client, p.defaults); err != nil { // what does not go together
		p.problems.add(node.Line, path, "%s", reason(err))
	}
	return e
}

func (e *entry) field(name, value *yaml.Node) {
	problems := &e.file.problems
	path, field := e.path+"."+name.Value, cmp.Or(earlier[name.Value], name.Value)
	if first := e.lines[field]; first > 0 {
		problems.add(name.Line, path, "is there twice, first in line %d", first)
		return
	}
	if name.Kind == yaml.ScalarNode && name.Value == "weights" {
		e.lines[name.Value] = name.Line
		e.readWeights(value, path)
		return
	}
	if name.Kind == yaml.ScalarNode && name.Value == "plans" {
		e.lines[name.Value] = name.Line
		e.readPlans(value, path)
		return
	}
	for _, f := range fields {
		if name.Kind != yaml.ScalarNode || field != f.name {
			continue
		}
		e.lines[f.name] = name.Line
		if text, ok := e.file.text(value, path, f.name); ok {
			if err := f.read(e, text); err != nil {
				problems.add(value.Line, path, "%v", err)
			} else if f.name == "name" {
				e.file.claim(text, path, value.Line)
			}
		}
		return
	}
	if why := gone[name.Value]; name.Kind == yaml.ScalarNode && why != "" {
		problems.add(name.Line, e.path+"."+name.Value, "%s", why)
		return
	}
	problems.add(name.Line, e.path, "unknown field %s: there are %s", shown(name), fieldNames)
}

// claim gives a name to the first limit that has it.
func (p *parser) claim(name, path string, line int) {
	if first := p.names[name]; first > 0 {
		p.problems.add(line, path, "%q is the name of another limit, in line %d", name, first)
		return
	}
	p.names[name] = line
}

// text is that of a scalar.
func (p *parser) text(value *yaml.Node, path, field string) (string, bool) {
	longest := longestText
	if field == "key" || field == "flow" {
		longest = longestKey
	}
	if !p.is(value, yaml.ScalarNode, path, "a text") {
		return "", false
	}
	switch tag := value.ShortTag(); {
	case tag == "!!null" || value.Value == "":
		p.problems.add(value.Line, path, "is empty")
	case len(value.Value) > longest:
		p.problems.add(value.Line, path, "must be at most %d bytes, got %d", longest, len(value.Value))
	case tag != "!!str" && (field == "name" || field == "key" || field == "flow" || field == "group"):
		p.problems.add(value.Line, path, "must be a text: write \"%s\" in quotes", value.Value)
	default:
		return value.Value, true
	}
	return "", false
}

// is checks what a node is. An alias is refused where it stands, unseen what it stands for.
func (p *parser) is(node *yaml.Node, kind yaml.Kind, path, want string) bool {
	switch {
	case node.Kind == yaml.AliasNode:
		p.problems.add(node.Line, path, "must not be an alias: write out what it stands for")
	case node.Style&yaml.TaggedStyle != 0:
		p.problems.add(node.Line, path, "must have no tag, got %.64q", node.Tag)
	case node.Kind != kind:
		p.problems.add(node.Line, path, "must be %s, got %s", want, kindOf(node))
	default:
		return true
	}
	return false
}

func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	if node.ShortTag() == "!!null" {
		return "nothing"
	}
	return shown(node)
}

// shown is a name of a field, or a value, in a message.
func shown(node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode {
		return "that is no text"
	}
	return fmt.Sprintf("%.64q", node.Value)
}

// pairs are the fields of a mapping: names and values.
func pairs(mapping *yaml.Node) func(yield func(name, value *yaml.Node) bool) {
	return func(yield func(name, value *yaml.Node) bool) {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i], mapping.Content[i+1]) {
				return
			}
		}
	}
}
