package interpreter

import (
	"math"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

// format is string.format for %s with texts and integers, and for %d, %.0f and %.17g with finite numbers.
func format(l *lua.LState) (results int, ok bool) {
	form, is := l.Get(1).(lua.LString)
	if !is {
		return 0, false
	}
	var room [128]byte
	text, next := room[:0], 2
	for k := 0; k < len(form); k++ {
		if form[k] != '%' {
			text = append(text, form[k])
			continue
		}
		arg := l.Get(next)
		next++
		if s, is := arg.(lua.LString); is {
			if k+1 >= len(form) || form[k+1] != 's' {
				return 0, false
			}
			text = append(text, s...)
			k++
			continue
		}
		n, is := arg.(lua.LNumber)
		x, rest := float64(n), form[k+1:]
		switch {
		case !is || math.IsInf(x, 0) || math.IsNaN(x):
			return 0, false
		case math.Abs(x) < 1<<53 && (begins(rest, "d") || begins(rest, "s") && x == math.Trunc(x)):
			text = strconv.AppendInt(text, int64(x), 10)
			k++
		case begins(rest, ".0f"):
			text = strconv.AppendFloat(text, x, 'f', 0, 64)
			k += len(".0f")
		case begins(rest, ".17g"):
			text = strconv.AppendFloat(text, x, 'g', 17, 64)
			k += len(".17g")
		default:
			return 0, false
		}
	}
	l.Push(lua.LString(text))
	return 1, true
}

func begins(text lua.LString, with string) bool {
	return len(text) >= len(with) && string(text[:len(with)]) == with
}
