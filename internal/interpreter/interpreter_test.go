package interpreter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
)

// results runs a script, and says what it returns.
func results(l *lua.LState, script string) string {
	defer l.SetTop(0)
	if err := l.DoString(script); err != nil {
		return "error: " + err.(*lua.ApiError).Object.String() //nolint:forcetypeassert,errorlint // scripts raise these
	}
	var text strings.Builder
	for k := range l.GetTop() {
		fmt.Fprintf(&text, "%v %q ", l.Get(k+1).Type(), l.Get(k+1).String())
	}
	return text.String()
}

// both are an interpreter of this package and one of gopher-lua.
func both(t *testing.T) func(script string) {
	ours, theirs := New(lua.Options{}), lua.NewState()
	t.Cleanup(ours.Close)
	t.Cleanup(theirs.Close)
	return func(script string) {
		require.Equal(t, results(theirs, script), results(ours, script), script)
	}
}

// written returns the patterns or formats that the scripts have.
func written(t *testing.T, pattern string) (all []string) {
	files, err := filepath.Glob("../../lua/*.lua")
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			all = append(all, found[1])
		}
	}
	require.Greater(t, len(all), 20)
	return all
}

// string.match gives what it gives in gopher-lua, for the patterns of the scripts and for others.
func TestMatch(t *testing.T) {
	same, random := both(t), rand.New(rand.NewPCG(1, 2))
	patterns := written(t, `\bmatch\([^'\n]*, '([^'\n]*)'\)`)
	for _, pattern := range patterns {
		require.True(t, simple(pattern), pattern)
	}
	pick := func(parts string) string {
		all := strings.Split(parts, "~")
		return all[random.IntN(len(all))]
	}
	for range 4_000 {
		pattern := pick("~^")
		for range 1 + random.IntN(5) {
			item := pick("a~1~:~ ~-~%-~%d~%S~%s~%a~%x~%D~.~[^: ]~[01]~[1-9]~[-!]~[%d:]~[^%s]~%%~%w~[a-f]~]~[")
			item += pick("~~~*~+~-~?")
			switch random.IntN(5) {
			case 0:
				item = "(" + item
			case 1:
				item += ")"
			case 2:
				item = "(" + item + ")"
			}
			pattern += item
		}
		patterns = append(patterns, pattern+pick("~~$"))
	}
	compared := 0
	for _, pattern := range patterns {
		if !simple(pattern) {
			continue // it goes to gopher-lua
		}
		for range 5 {
			text := ""
			for range random.IntN(12) {
				text += pick("a~f~z~1~0~9~:~ ~ ~-~!~%~]~é")
			}
			same(fmt.Sprintf("return string.match(%q, %q)", text, pattern))
			compared++
		}
	}
	require.Greater(t, compared, 2_000)
}

// string.format gives what it gives in gopher-lua.
func TestFormat(t *testing.T) {
	same, random := both(t), rand.New(rand.NewPCG(3, 4))
	forms := append(written(t, `format\('([^'\n]*)'`), "%s", "%d", "%.0f", "%.17g", "%5.1f", "%%%s", "%x", "%", "%s%s%s", "%q", "%.1f")
	values := []string{"0", "-0", "1/0", "-1/0", "0/0", "'a'", "''", "'%d'", "nil", "true", "0.5", "-1.5", "1e15", "1e17", "1e300", "2^53", "2^63", "-2^53"}
	for range 3_000 {
		script := fmt.Sprintf("return string.format(%q", forms[random.IntN(len(forms))])
		for range random.IntN(6) {
			value := fmt.Sprint(math.Ldexp(random.Float64()-0.5, random.IntN(70)))
			if random.IntN(2) == 0 {
				value = values[random.IntN(len(values))]
			}
			script += ", " + value
		}
		same(script + ")")
	}
}

// A table has the same fields, however much room it has.
func TestRoom(t *testing.T) {
	p, err := Compile(`
		local t, list, mixed = {}, {}, { 1, 2, x = 3 }
		for k = 1, 100 do t['f' .. k], list[k] = k, k end
		t.a, t.b, t.c, mixed.y = 1, 2, 3, 4
		local n = 0
		for _, v in pairs(t) do n = n + v end
		return n, #list, mixed[2], mixed.x, mixed.y`, "script")
	require.NoError(t, err)
	hints := 0
	for _, code := range p.Code {
		if kind, _ := operation(code); kind == lua.OP_NEWTABLE {
			require.NotZero(t, code>>9&0x1ff)
			hints++
		}
	}
	require.Equal(t, 3, hints)
	l := New(lua.Options{})
	defer l.Close()
	l.Push(l.NewFunctionFromProto(p))
	l.Call(0, lua.MultRet)
	for k, want := range []string{"5056", "100", "2", "3", "4"} {
		require.Equal(t, want, l.Get(k+1).String())
	}
}
