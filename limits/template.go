package limits

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A template is a key, or the name of a flow, with names in braces. The zero template is empty: the
// limit has no key.
type template struct {
	text  string
	parts []part
	end   string // the text after the last name
}

// part is a name and the text before it.
type part struct{ before, name string }

// longestKey is the most that reserve.Limiter.For accepts, in bytes.
const longestKey = 512

var nameInBraces = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func parseTemplate(text string) (template, error) {
	if len(text) > longestKey {
		return template{}, fmt.Errorf("must be at most %d bytes, got %d", longestKey, len(text))
	}
	if err := printable(text); err != nil {
		return template{}, err
	}
	t, rest := template{text: text}, text
	for {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return template{}, fmt.Errorf("has a closing brace without an opening one: %q", text)
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		switch {
		case !closed:
			return template{}, fmt.Errorf("has an opening brace without a closing one: %q", text)
		case !nameInBraces.MatchString(name):
			return template{}, fmt.Errorf("must have names of 1 to 64 letters, digits, _ and - in its braces, got %q", name)
		case slices.Contains(t.names(), name):
			return template{}, fmt.Errorf("has {%s} twice", name)
		case len(t.parts) > 0 && (before == "" || !separates(before[0])):
			return template{}, fmt.Errorf("must have a punctuation mark other than %% after {%s}", t.parts[len(t.parts)-1].name)
		}
		t.parts, rest = append(t.parts, part{before, name}), behind
	}
	if len(t.parts) == 0 {
		return template{}, fmt.Errorf("must have a name in braces, such as {account}, got %q: leave it out if all calls share one limit", text)
	}
	t.end = rest
	return t, nil
}

// separates reports whether a byte may follow a value. Values are encoded so that this byte does
// not occur in them, which works neither for letters and digits nor for %.
func separates(b byte) bool {
	return b > ' ' && b <= '~' && b != '%' && !unicode.IsLetter(rune(b)) && !unicode.IsDigit(rune(b))
}

func (t template) names() []string {
	names := make([]string, 0, len(t.parts))
	for _, p := range t.parts {
		names = append(names, p.name)
	}
	return names
}

// fill returns the key, of at most `longest` bytes. It needs a value for each name. The key of the
// zero template is empty.
func (t template) fill(values map[string]string, what string, longest int) (string, error) {
	var key strings.Builder
	for i, p := range t.parts {
		value := values[p.name]
		if i+1 < len(t.parts) {
			mark := t.parts[i+1].before[:1]
			value = strings.ReplaceAll(value, "%", "%25")
			value = strings.ReplaceAll(value, mark, fmt.Sprintf("%%%02X", mark[0]))
		}
		key.WriteString(p.before)
		key.WriteString(value)
	}
	key.WriteString(t.end)
	if key.Len() > longest {
		return "", fmt.Errorf("the %s must be at most %d bytes, got %d", what, longest, key.Len())
	}
	return key.String(), nil
}

// fits checks that there is a value for each of the names, and no other value.
func fits(names []string, values map[string]string) error {
	var wrong []string
	unknown := len(values)
	for _, name := range names {
		value, ok := values[name]
		switch {
		case !ok:
			wrong = append(wrong, name+" is missing")
			continue
		case value == "":
			wrong = append(wrong, name+" is empty")
		}
		unknown--
	}
	if unknown > 0 {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !slices.Contains(names, name) {
				wrong = append(wrong, fmt.Sprintf("there is no name %.64q", name))
			}
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}

// printable refuses characters that are invisible, or misleading, in a name.
func printable(text string) error {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("must hold no control characters, got %.64q", text)
		}
	}
	if strings.TrimSpace(text) != text {
		return fmt.Errorf("must not begin or end with a space, got %.64q", text)
	}
	return nil
}
