// Package interpreter runs Lua for the Redis servers of the tests. It is gopher-lua with faster functions for
// texts. gopher-lua parses a pattern in each call, and formats each number several times. This takes a quarter of
// the time of a script. It is for tests.
package interpreter

import (
	"strings"
	"sync"

	luavm "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// New returns an interpreter with the libraries that scripts may use.
func New(options luavm.Options) *luavm.LState {
	l := gopher(options)
	text := l.GetGlobal(luavm.StringLibName).(*luavm.LTable) //nolint:forcetypeassert // it is the library
	f := &functions{patterns: map[string]*pattern{}}
	for _, r := range []struct {
		in   *luavm.LTable
		name string
		make func(before luavm.LGFunction) luavm.LGFunction
	}{
		{text, "match", f.match},
		{text, "find", f.find},
		{text, "gmatch", f.gmatch},
		{text, "format", format},
		{l.G.Global, "tostring", toString},
	} {
		before := r.in.RawGetString(r.name).(*luavm.LFunction) //nolint:forcetypeassert // it is a function
		var upvalues []luavm.LValue
		for _, u := range before.Upvalues {
			upvalues = append(upvalues, u.Value())
		}
		r.in.RawSetString(r.name, l.NewClosure(r.make(before.GFunction), upvalues...))
	}
	return l
}

// gopher returns an interpreter as gopher-lua has it.
func gopher(options luavm.Options) *luavm.LState {
	options.SkipOpenLibs = true
	l := luavm.NewState(options)
	for name, open := range map[string]luavm.LGFunction{
		luavm.BaseLibName: luavm.OpenBase, luavm.TabLibName: luavm.OpenTable,
		luavm.StringLibName: luavm.OpenString, luavm.MathLibName: luavm.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(luavm.LString(name))
		l.Call(1, 0)
	}
	return l
}

// compiled holds the compiled scripts, by name and text.
var compiled sync.Map

// Compile returns a compiled script. Its errors contain the name.
func Compile(text, name string) (*luavm.FunctionProto, error) {
	key := [2]string{name, text}
	if p, ok := compiled.Load(key); ok {
		return p.(*luavm.FunctionProto), nil //nolint:forcetypeassert // there is nothing else
	}
	chunk, err := parse.Parse(strings.NewReader(text), "<string>")
	if err != nil {
		return nil, err //nolint:wrapcheck // it is what Redis replies
	}
	p, err := luavm.Compile(chunk, name)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is what Redis replies
	}
	compiled.Store(key, p)
	return p, nil
}
