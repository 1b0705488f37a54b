package interpreter

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	luavm "github.com/yuin/gopher-lua"
)

// answers calls a function of a script, and returns all that it returns, or its error.
func answers(t *testing.T, l *luavm.LState, body string, args ...luavm.LValue) []string {
	t.Helper()
	f, err := Compile(body, "script")
	require.NoError(t, err, body)
	l.SetGlobal("A", list(l, args))
	l.Push(l.NewFunctionFromProto(f))
	if err := l.PCall(0, luavm.MultRet, nil); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return []string{"error", text}
	}
	var all []string
	for i := range l.GetTop() {
		all = append(all, l.Get(i+1).Type().String()+" "+l.Get(i+1).String())
	}
	l.SetTop(0)
	return all
}

func list(l *luavm.LState, all []luavm.LValue) *luavm.LTable {
	t := l.CreateTable(len(all), 0)
	for i, v := range all {
		t.RawSetInt(i+1, v)
	}
	return t
}

// patterns are those of the scripts, and others.
func patterns(t *testing.T) []string {
	t.Helper()
	all := []string{
		"", "^", "$", "^$", "%", "[", "[]", "[]]", "[^]", "(", ")", "()", "(()a)", "((a)b)", "a-", "a-b", "a?b?$", "^a*b+", ".-b", "(.-)%s",
		"%D+", "%b()", "(a)%1", "%f[a]b", "[a-c]+", "[%d-]", "[%a_-]+", "a$b", "%$", "%%$", "x*", "^x*", "(x*)(.?)", "[%S]+", "%S+$", "-", "*", "a**",
		"(a+)(a-)(a*)$", "(%x+)%.(%w*)", "[^%s;]+", "[^a-b ]", "%z", "[.]", "[a%]b]",
	}
	files, err := filepath.Glob("../../lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	before := len(all)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?:match|find)\([^,]*, '([^']*)'`).FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
	}
	require.Greater(t, len(all), before+30)
	return all
}

// All functions return what those of gopher-lua return, and fail with the same words.
func TestPatternsFitAsInGopherLua(t *testing.T) {
	usual, ours := gopher(luavm.Options{}), New(luavm.Options{})
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "b", "aab", " ", "  ", ";", ":", "12", "-3", "4.5", "x", "_", "-", "~", "!", "+", "protocol ", "(a)", "$", "%", ".", "\n", "]", "ff", "/", "@stop"}
	for _, p := range patterns(t) {
		for range 150 {
			var text strings.Builder
			for range random.IntN(9) {
				text.WriteString(words[random.IntN(len(words))])
			}
			for _, body := range []string{
				"return string.match(A[1], A[2])", "return string.find(A[1], A[2])", "return string.match(A[1], A[2], 2)",
				"local all = {} for a, b in string.gmatch(A[1], A[2]) do all[#all + 1] = a .. '|' .. tostring(b) end return table.concat(all, ',')",
			} {
				args := []luavm.LValue{luavm.LString(text.String()), luavm.LString(p)}
				require.Equal(t, answers(t, usual, body, args...), answers(t, ours, body, args...), "%s of %q and %q", body, args[0], args[1])
			}
		}
	}
}

// parsed knows most patterns of the scripts, so that gopher-lua parses few of them.
func TestPatternsOfScriptsAreParsed(t *testing.T) {
	all, unknown := patterns(t)[45:], 0
	for _, p := range all {
		if _, ok := parsed(p); !ok {
			unknown++
		}
	}
	require.Less(t, unknown, len(all)/4)
}

func TestTextsAreThoseOfGopherLua(t *testing.T) {
	usual, ours := gopher(luavm.Options{}), New(luavm.Options{})
	values := []luavm.LValue{
		luavm.LString("a"), luavm.LString("12"), luavm.LString(""), luavm.LTrue, luavm.LNil, luavm.LNumber(math.Inf(1)), luavm.LNumber(math.Inf(-1)),
		luavm.LNumber(math.NaN()), luavm.LNumber(math.Copysign(0, -1)), luavm.LNumber(1e15), luavm.LNumber(1e21), luavm.LNumber(1e300), luavm.LNumber(2.5), luavm.LNumber(3.5),
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		x := math.Pow(10, random.Float64()*40-20) * float64(1-2*random.IntN(2))
		values = append(values, luavm.LNumber(x), luavm.LNumber(math.Round(x)), luavm.LNumber(random.IntN(1e9))/8)
	}
	for _, v := range values {
		for _, body := range []string{
			"return tostring(A[1])", "return string.format('%s', A[1])", "return string.format('%d', A[1])", "return string.format('%.0f', A[1])",
			"return string.format('%.17g', A[1])", "return string.format('%.1f', A[1])", "return string.format('a %s%%: %.0f:%d.', A[1], A[1], A[1])",
			"return string.format('%s %s', A[1])", "return string.format('%s', A[1], 1)", "return string.format(A[1])", "return string.format('%%')",
			"return tostring()", "return string.format('%q', A[1])", "return string.match(A[1], '%d+')", "return string.find(A[1], A[1])", "return string.match()",
		} {
			require.Equal(t, answers(t, usual, body, v), answers(t, ours, body, v), "%s of %v", body, v)
		}
	}
}

// Each class has the bytes that it has in gopher-lua.
func TestClassesHaveTheBytesOfGopherLua(t *testing.T) {
	usual, ours := gopher(luavm.Options{}), New(luavm.Options{})
	for _, class := range []string{"%d", "%a", "%w", "%x", "%s", "%S", "%.", ".", "a", "[^ ;]", "[01]", "[1-9]", "[%w_]", "[^%S]"} {
		_, ok := parsed(class)
		require.True(t, ok, class)
		for c := range 256 {
			one := luavm.LString([]byte{byte(c)})
			require.Equal(t, answers(t, usual, "return string.find(A[1], A[2])", one, luavm.LString(class)),
				answers(t, ours, "return string.find(A[1], A[2])", one, luavm.LString(class)), "%q of %s", one, class)
		}
	}
}
