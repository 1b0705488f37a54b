package interpreter

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// most is how many captures a pattern may have here.
const most = 16

// match is string.match for patterns of characters, classes, sets, repetitions, anchors and captures that are not in
// one another. gopher-lua compiles each pattern anew whenever it is used.
func match(l *lua.LState) (results int, ok bool) {
	text, isText := l.Get(1).(lua.LString)
	pattern, isPattern := l.Get(2).(lua.LString)
	if !isText || !isPattern || l.GetTop() > 2 || !simple(string(pattern)) {
		return 0, false
	}
	m := matcher{text: string(text), pattern: string(pattern)}
	from, anchored := 0, strings.HasPrefix(m.pattern, "^")
	if anchored {
		m.pattern = m.pattern[1:]
	}
	for ; from <= len(m.text); from++ {
		m.captures = 0
		end := m.match(from, 0)
		switch {
		case end >= 0 && m.captures == 0:
			l.Push(text[from:end])
			return 1, true
		case end >= 0:
			for _, c := range m.capture[:m.captures] {
				l.Push(text[c[0]:c[1]])
			}
			return m.captures, true
		case anchored:
			from = len(m.text)
		}
	}
	l.Push(lua.LNil)
	return 0, true // gopher-lua returns no value, and not nil
}

// simple returns whether a pattern has only what match knows.
func simple(pattern string) bool {
	open, captures := false, 0
	for k := 0; k < len(pattern); k++ {
		switch c := pattern[k]; c {
		case '(':
			captures++
			if open || captures > most || strings.HasPrefix(pattern[k+1:], ")") {
				return false
			}
			open = true
			continue
		case ')':
			if !open {
				return false
			}
			open = false
			continue
		case '^':
			if k > 0 {
				return false
			}
			continue
		case '%':
			k++
			if k >= len(pattern) || !known(pattern[k]) {
				return false
			}
		case '[':
			if k = setEnd(pattern, k); k < 0 {
				return false
			}
		case '*', '+', '?': // it repeats nothing
			return false
		case '-':
			if k > 0 && pattern[k-1] != '(' && pattern[k-1] != '^' {
				return false
			}
		case '$':
			if k+1 < len(pattern) {
				return false
			}
		}
		if k+1 < len(pattern) && strings.IndexByte("*+-?", pattern[k+1]) >= 0 {
			k++
		}
	}
	return !open
}

// known returns whether match knows what a character behind a % means.
func known(c byte) bool {
	return strings.IndexByte("adsxADSX", c) >= 0 || !letter(c) && !digit(c)
}

// setEnd returns the index of the bracket that closes a set, or -1 if the set has what match does not know.
func setEnd(pattern string, k int) int {
	k++
	if k < len(pattern) && pattern[k] == '^' {
		k++
	}
	for first := k; k < len(pattern); k++ {
		switch c := pattern[k]; {
		case c == ']' && k > first:
			return k
		case c == ']' || c == '[' || c == '^':
			return -1
		case c == '%':
			k++
			if k >= len(pattern) || !known(pattern[k]) {
				return -1
			}
		case c == '-' && k > first:
			if k+1 >= len(pattern) || !(digit(pattern[k-1]) && digit(pattern[k+1])) {
				return -1
			}
		}
	}
	return -1
}

func digit(c byte) bool  { return '0' <= c && c <= '9' }
func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

type matcher struct {
	text, pattern string
	capture       [most][2]int
	captures      int
}

// match returns where the text that the rest of the pattern matches ends, or -1.
func (m *matcher) match(at, p int) int {
	for p < len(m.pattern) {
		switch m.pattern[p] {
		case '(':
			m.captures++
			m.capture[m.captures-1][0] = at
			end := m.match(at, p+1)
			if end < 0 {
				m.captures--
			}
			return end
		case ')':
			m.capture[m.captures-1][1] = at
			p++
			continue
		case '$':
			if at < len(m.text) {
				return -1
			}
			return at
		}
		next := m.itemEnd(p)
		repeated := byte(0)
		if next < len(m.pattern) {
			repeated = m.pattern[next]
		}
		switch repeated {
		case '*', '+':
			until := at
			for until < len(m.text) && m.one(m.text[until], p, next) {
				until++
			}
			least := at
			if repeated == '+' {
				least++
			}
			return m.longest(least, until, next+1)
		case '-':
			return m.shortest(at, p, next)
		case '?':
			if at < len(m.text) && m.one(m.text[at], p, next) {
				if end := m.match(at+1, next+1); end >= 0 {
					return end
				}
			}
			p = next + 1
		default:
			if at >= len(m.text) || !m.one(m.text[at], p, next) {
				return -1
			}
			at, p = at+1, next
		}
	}
	return at
}

// longest matches the rest of the pattern as late in the text as it can.
func (m *matcher) longest(least, until, p int) int {
	for ; until >= least; until-- {
		if end := m.match(until, p); end >= 0 {
			return end
		}
	}
	return -1
}

// shortest matches the rest of the pattern as early in the text as it can.
func (m *matcher) shortest(at, p, next int) int {
	for {
		if end := m.match(at, next+1); end >= 0 {
			return end
		}
		if at >= len(m.text) || !m.one(m.text[at], p, next) {
			return -1
		}
		at++
	}
}

// itemEnd returns where a character, a class or a set ends.
func (m *matcher) itemEnd(p int) int {
	switch m.pattern[p] {
	case '%':
		return p + 2
	case '[':
		return setEnd(m.pattern, p) + 1
	}
	return p + 1
}

// one returns whether a character matches an item.
func (m *matcher) one(c byte, p, next int) bool {
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return class(c, m.pattern[p+1])
	case '[':
		return set(c, m.pattern[p+1:next-1])
	}
	return c == m.pattern[p]
}

func set(c byte, items string) bool {
	items, not := strings.CutPrefix(items, "^")
	for k := 0; k < len(items); k++ {
		switch {
		case items[k] == '%':
			k++
			if class(c, items[k]) {
				return !not
			}
		case k+2 < len(items) && items[k+1] == '-':
			if items[k] <= c && c <= items[k+2] {
				return !not
			}
			k += 2
		case c == items[k]:
			return !not
		}
	}
	return not
}

func class(c, name byte) bool {
	is := false
	switch name | 0x20 {
	case 'a':
		is = letter(c)
	case 'd':
		is = digit(c)
	case 's':
		is = c == ' ' || '\t' <= c && c <= '\r'
	case 'x':
		is = digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	default:
		return c == name
	}
	return is != (name < 'a')
}
