package headers

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// set gathers the fields of windows that come in any order.
type set map[string]*Window

func (s set) at(name string) *Window {
	w := s[name]
	if w == nil {
		w = &Window{Name: name, Unit: unitOf(name), Remaining: -1}
		s[name] = w
	}
	return w
}

// list is the windows by name, without those of which neither the limit nor what
// remains is known: a reset alone says nothing.
func (s set) list() []Window {
	var list []Window
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if w := s[name]; w.Limit > 0 || w.Remaining >= 0 {
			list = append(list, *w)
		}
	}
	return list
}

// unitOf tells from a window's name what it counts: "requests-day" requests,
// "input-tokens" tokens.
func unitOf(name string) string {
	switch {
	case strings.Contains(name, "token"):
		return Tokens
	case strings.Contains(name, "request"):
		return Requests
	}
	return ""
}

const day = 24 * time.Hour

// periodOf tells from a window's name how long it is, where the name says so:
// "requests-day", "tokens-minute".
func periodOf(name string) time.Duration {
	_, last, _ := cutLast(name, '-')
	return map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day}[last]
}

// cutLast splits text at the last sep.
func cutLast(text string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}
