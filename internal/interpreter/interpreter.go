// Package interpreter runs Lua for the Redis servers of the tests.
package interpreter

import (
	"strings"
	"sync"

	luavm "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// New returns an interpreter with the libraries that scripts may use.
func New(options luavm.Options) *luavm.LState {
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
