package headers

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// set collects the fields of windows, which come in any order.
type set map[string]*Window

func (s set) at(name string) *Window {
	w := s[name]
	if w == nil {
		w = &Window{Name: name, Unit: unitOf(name), Remaining: -1}
		s[name] = w
	}
	return w
}

// list returns the windows by name. It leaves windows out whose limit and remaining units are both
// unknown: a reset alone says nothing.
func (s set) list() []Window {
	var list []Window
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if w := s[name]; w.Limit > 0 || w.Remaining >= 0 {
			list = append(list, *w)
		}
	}
	return list
}

// unitOf returns what a window counts, by its name: requests for "requests-day", tokens for
// "input-tokens".
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

// periodOf returns the length of a window, if its name states one: "requests-day", "tokens-minute".
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
