package interpreter

import (
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// New returns an interpreter with the libraries that scripts of Redis use.
func New(options lua.Options) *lua.LState {
	options.SkipOpenLibs = true
	l := lua.NewState(options)
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	for name, quick := range map[string]func(l *lua.LState) (results int, ok bool){"match": match, "format": format} {
		library := l.GetGlobal(lua.StringLibName).(*lua.LTable)       //nolint:forcetypeassert // OpenString made it
		slow := library.RawGetString(name).(*lua.LFunction).GFunction //nolint:forcetypeassert // it is in the library
		library.RawSetString(name, l.NewFunction(func(l *lua.LState) int {
			if results, ok := quick(l); ok {
				return results
			}
			return slow(l)
		}))
	}
	return l
}

// compiled has the compiled scripts, by name and text.
var compiled sync.Map

// Compile returns a compiled script. Its errors are those of the interpreter, which name the script.
func Compile(text, name string) (*lua.FunctionProto, error) {
	key := [2]string{name, text}
	if p, ok := compiled.Load(key); ok {
		return p.(*lua.FunctionProto), nil //nolint:forcetypeassert // there is nothing else
	}
	chunk, err := parse.Parse(strings.NewReader(text), "<string>")
	if err != nil {
		return nil, err //nolint:wrapcheck // it is what Redis replies
	}
	p, err := lua.Compile(chunk, name)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is what Redis replies
	}
	makeRoom(p)
	compiled.Store(key, p)
	return p, nil
}

// An instruction has the kind of operation in six bits, then register A in eight, and B and C in nine bits each.
func operation(code uint32) (kind int, a uint32) { return int(code >> 26), code >> 18 & 0xff }

// makeRoom gives each table that begins without fields room for the fields that its function sets. The interpreter makes
// room for 32 fields as soon as there is one.
func makeRoom(p *lua.FunctionProto) {
	fields := map[uint32]uint32{}
	for _, code := range p.Code {
		if kind, a := operation(code); kind == lua.OP_SETTABLEKS {
			fields[a]++
		}
	}
	for k, code := range p.Code {
		if kind, a := operation(code); kind == lua.OP_NEWTABLE && code&(1<<18-1) == 0 {
			p.Code[k] |= max(1, min(fields[a], 32)) << 9
		}
	}
	for _, inner := range p.FunctionPrototypes {
		makeRoom(inner)
	}
}
