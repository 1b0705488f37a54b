package interpreter

import (
	"math"
	"strconv"
	"strings"

	luavm "github.com/yuin/gopher-lua"
)

// functions replace those of gopher-lua, and leave unusual arguments to them.
type functions struct {
	patterns map[string]*pattern // nil: gopher-lua parses it
	found    found
}

// texts returns the text and the pattern that are the only arguments.
func (f *functions) texts(l *luavm.LState) (string, *pattern) {
	if l.GetTop() != 2 {
		return "", nil
	}
	text, ok := l.Get(1).(luavm.LString)
	written, is := l.Get(2).(luavm.LString)
	if !ok || !is {
		return "", nil
	}
	p, known := f.patterns[string(written)]
	if !known {
		if p, ok = parsed(string(written)); !ok {
			p = nil
		}
		f.patterns[string(written)] = p
	}
	return string(text), p
}

// push pushes the captures. A pattern without captures has the whole as its capture, if it is asked for.
func (f *functions) push(l *luavm.LState, p *pattern, text string, whole bool) int {
	if p.captures == 0 && whole {
		l.Push(luavm.LString(text[f.found.from:f.found.to]))
		return 1
	}
	for _, c := range f.found.captures[:p.captures] {
		l.Push(luavm.LString(text[c[0]:c[1]]))
	}
	return p.captures
}

func (f *functions) match(before luavm.LGFunction) luavm.LGFunction {
	return func(l *luavm.LState) int {
		text, p := f.texts(l)
		switch {
		case p == nil:
			return before(l)
		case !p.in(text, 0, &f.found):
			return 0 // as in gopher-lua: Redis returns nil
		}
		return f.push(l, p, text, true)
	}
}

func (f *functions) find(before luavm.LGFunction) luavm.LGFunction {
	return func(l *luavm.LState) int {
		text, p := f.texts(l)
		switch {
		case p == nil || len(p.steps) == 0:
			return before(l)
		case !p.in(text, 0, &f.found):
			l.Push(luavm.LNil)
			return 1
		}
		l.Push(luavm.LNumber(f.found.from + 1))
		l.Push(luavm.LNumber(f.found.to))
		return 2 + f.push(l, p, text, false)
	}
}

func (f *functions) gmatch(before luavm.LGFunction) luavm.LGFunction {
	return func(l *luavm.LState) int {
		text, p := f.texts(l)
		if p == nil || p.head {
			return before(l)
		}
		from := 0
		l.Push(l.NewFunction(func(l *luavm.LState) int {
			if !p.in(text, from, &f.found) {
				return 0
			}
			from = max(f.found.from+1, f.found.to)
			return f.push(l, p, text, true)
		}))
		return 1
	}
}

// number is the text of a number, as gopher-lua writes it: Redis keeps 14 digits.
func number(x float64) string {
	if x == float64(int64(x)) {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func toString(before luavm.LGFunction) luavm.LGFunction {
	return func(l *luavm.LState) int {
		if x, ok := l.Get(1).(luavm.LNumber); ok {
			l.Push(luavm.LString(number(float64(x))))
			return 1
		}
		return before(l)
	}
}

func format(before luavm.LGFunction) luavm.LGFunction {
	return func(l *luavm.LState) int {
		form, ok := l.Get(1).(luavm.LString)
		if !ok {
			return before(l)
		}
		room := [128]byte{}
		text, rest := room[:0], string(form)
		for n := 2; ; n++ {
			piece, verb, found := strings.Cut(rest, "%")
			text = append(text, piece...)
			if !found {
				if n <= l.GetTop() {
					return before(l)
				}
				l.Push(luavm.LString(text))
				return 1
			}
			if text, rest, ok = one(text, verb, l.Get(n)); !ok {
				return before(l)
			}
		}
	}
}

// one adds a value as a verb says, and returns what follows the verb. If the value or the verb is unusual, ok is
// false.
func one(text []byte, verb string, value luavm.LValue) (_ []byte, rest string, ok bool) {
	s, isText := value.(luavm.LString)
	x, isNumber := value.(luavm.LNumber)
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return nil, "", false
	}
	switch {
	case strings.HasPrefix(verb, "s") && isText:
		return append(text, s...), verb[1:], true
	case strings.HasPrefix(verb, "s") && isNumber:
		return append(text, number(float64(x))...), verb[1:], true
	case strings.HasPrefix(verb, "d") && isNumber:
		return strconv.AppendInt(text, int64(x), 10), verb[1:], true
	case strings.HasPrefix(verb, ".0f") && isNumber:
		return strconv.AppendFloat(text, float64(x), 'f', 0, 64), verb[3:], true
	case strings.HasPrefix(verb, ".17g") && isNumber:
		return strconv.AppendFloat(text, float64(x), 'g', 17, 64), verb[4:], true
	}
	return nil, "", false
}
