package smallredis

import (
	"strings"

	luavm "github.com/yuin/gopher-lua"

	"github.com/fleetpace/fleetpace/internal/interpreter"
)

// Redis is a Redis that runs scripts in this process. It is not safe for concurrent use.
type Redis struct {
	Data     Data
	Now      int64                         // its time, in micros
	Run      string                        // its run ID
	Full     bool                          // commands that need memory are refused, unless the script has written before
	Publish  func(channel, message string) // publishes a message; nil: discards it
	Commands int                           // how many were run

	wrote bool // whether the script has written
	state *luavm.LState
}

// New returns a Redis without data.
func New() *Redis {
	l := interpreter.New(luavm.Options{CallStackSize: 128, RegistrySize: 4096})
	r := &Redis{state: l}
	api := l.NewTable()
	api.RawSetString("call", l.NewFunction(func(l *luavm.LState) int { return r.call(false) }))
	api.RawSetString("pcall", l.NewFunction(func(l *luavm.LState) int { return r.call(true) }))
	api.RawSetString("error_reply", l.NewFunction(func(l *luavm.LState) int {
		l.Push(failure(l, l.CheckString(1)))
		return 1
	}))
	l.SetGlobal("redis", api)
	return r
}

// Close ends it.
func (r *Redis) Close() { r.state.Close() }

// Expire deletes the keys that have expired, and returns their names.
func (r *Redis) Expire() (names []string) {
	r.Data, names = r.Data.expire(r.Now)
	return names
}

func failure(l *luavm.LState, text string) *luavm.LTable {
	t := l.NewTable()
	t.RawSetString("err", luavm.LString(text))
	return t
}

// call is redis.call, or redis.pcall if it is protected.
func (r *Redis) call(protected bool) int {
	l := r.state
	args := make([]string, l.GetTop())
	for k := range args {
		switch a := l.Get(k + 1).(type) {
		case luavm.LNumber:
			args[k] = Text(float64(a))
		case luavm.LString:
			args[k] = string(a)
		default:
			l.RaiseError("ERR argument %d of %v is a %s", k, args[0], a.Type())
		}
	}
	reply := r.Do(args)
	refused, isRefusal := reply.(Refusal)
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

// Eval runs a script. Its reply has the types of a command's reply.
func (r *Redis) Eval(text string, keys, args []string) any {
	r.wrote, r.Commands = false, 0
	p, err := interpreter.Compile(text, "script")
	if err != nil {
		return Refusal("ERR " + err.Error())
	}
	l := r.state
	l.SetGlobal("KEYS", texts(l, keys))
	l.SetGlobal("ARGV", texts(l, args))
	l.Push(l.NewFunctionFromProto(p))
	if err := l.PCall(0, 1, nil); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return Refusal(text)
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
			return Refusal(text)
		}
		reply := make([]any, v.Len())
		for k := range reply {
			reply[k] = fromLua(v.RawGetInt(k + 1))
		}
		return reply
	}
	return nil
}
