package world

import (
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	luavm "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/fleetpace/fleetpace/lua"
)

// verbs are the scripts that ship, by name.
var verbs = map[string]*redis.Script{
	"ask": lua.Ask, "leave": lua.Leave, "settle": lua.Settle, "pause": lua.Pause,
	"resume": lua.Resume, "set": lua.Set, "inspect": lua.Inspect, "beat": lua.Beat,
}

// verbOf is the name of the script with a hash.
var verbOf = func() map[string]string {
	all := map[string]string{}
	for verb, script := range verbs {
		all[script.Hash()] = verb
	}
	return all
}()

// compiled are the scripts that were compiled, by text.
var compiled sync.Map

func compile(text string) (*luavm.FunctionProto, error) {
	if p, ok := compiled.Load(text); ok {
		return p.(*luavm.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	p, err := luavm.Compile(chunk, "script")
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	compiled.Store(text, p)
	return p, nil
}

// interpreter runs scripts on a database.
type interpreter struct {
	state *luavm.LState
	db    *database
}

func newInterpreter(db *database) *interpreter {
	l := luavm.NewState(luavm.Options{SkipOpenLibs: true, CallStackSize: 128, RegistrySize: 4096})
	for name, open := range map[string]luavm.LGFunction{
		luavm.BaseLibName: luavm.OpenBase, luavm.TabLibName: luavm.OpenTable,
		luavm.StringLibName: luavm.OpenString, luavm.MathLibName: luavm.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(luavm.LString(name))
		l.Call(1, 0)
	}
	i := &interpreter{l, db}
	api := l.NewTable()
	api.RawSetString("call", l.NewFunction(func(l *luavm.LState) int { return i.call(false) }))
	api.RawSetString("pcall", l.NewFunction(func(l *luavm.LState) int { return i.call(true) }))
	api.RawSetString("error_reply", l.NewFunction(func(l *luavm.LState) int {
		l.Push(failure(l, l.CheckString(1)))
		return 1
	}))
	l.SetGlobal("redis", api)
	return i
}

func (i *interpreter) close() { i.state.Close() }

func failure(l *luavm.LState, text string) *luavm.LTable {
	t := l.NewTable()
	t.RawSetString("err", luavm.LString(text))
	return t
}

// call is redis.call, and redis.pcall where it is protected.
func (i *interpreter) call(protected bool) int {
	l := i.state
	args := make([]string, l.GetTop())
	for k := range args {
		switch a := l.Get(k + 1).(type) {
		case luavm.LNumber:
			args[k] = number(float64(a))
		case luavm.LString:
			args[k] = string(a)
		default:
			l.RaiseError("ERR argument %d of %v is a %s", k, args[0], a.Type())
		}
	}
	reply := i.db.do(args)
	refused, isRefusal := reply.(refusal)
	switch {
	case isRefusal && !protected:
		l.Error(luavm.LString(refused), 0)
	case isRefusal:
		l.Push(failure(l, string(refused)))
	default:
		l.Push(toLua(l, reply))
	}
	return 1
}

func toLua(l *luavm.LState, reply any) luavm.LValue {
	switch r := reply.(type) {
	case int64:
		return luavm.LNumber(r)
	case string:
		return luavm.LString(r)
	case []any:
		t := l.CreateTable(len(r), 0)
		for k, v := range r {
			t.RawSetInt(k+1, toLua(l, v))
		}
		return t
	}
	return luavm.LFalse
}

// run runs a script. Its reply is that of a command.
func (i *interpreter) run(text string, keys, args []string) any {
	p, err := compile(text)
	if err != nil {
		return refusal("ERR " + err.Error())
	}
	l := i.state
	l.SetGlobal("KEYS", texts(l, keys))
	l.SetGlobal("ARGV", texts(l, args))
	l.Push(l.NewFunctionFromProto(p))
	if err := l.PCall(0, 1, nil); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return refusal(text)
	}
	reply := l.Get(-1)
	l.SetTop(0)
	return fromLua(reply)
}

func texts(l *luavm.LState, all []string) *luavm.LTable {
	t := l.CreateTable(len(all), 0)
	for k, text := range all {
		t.RawSetInt(k+1, luavm.LString(text))
	}
	return t
}

func fromLua(v luavm.LValue) any {
	switch v := v.(type) {
	case luavm.LNumber:
		return int64(v)
	case luavm.LString:
		return string(v)
	case *luavm.LTable:
		if text, ok := v.RawGetString("err").(luavm.LString); ok {
			return refusal(text)
		}
		reply := make([]any, v.Len())
		for k := range reply {
			reply[k] = fromLua(v.RawGetInt(k + 1))
		}
		return reply
	}
	return nil
}
