package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// server is a Redis that runs scripts on data and at a time that the explorer sets. Package wire takes
// it for a client: that never calls anything but Process, with EVALSHA and EVAL.
type server struct {
	redis.UniversalClient // nil

	data data
	now  int64    // micros
	run  string   // what tells it from other servers
	news []string // that scripts have published since they were taken

	plant   mistake
	planted bool // a script had the piece that the mistake changes
	hold    bool // requests are kept and not run: they are on their way
	last    request
	record  func(command) // of everything that changes the data; nil: nobody replays it
	calls   int

	vm      *lua.LState
	scripts map[string]*lua.FunctionProto // by the hash under which they are called
	texts   map[string]string
}

// request is a script call as it is sent, and what was replied.
type request struct {
	hash       string
	keys, args []string
	reply      []any
}

// command is one that a real Redis takes to stand where the embedded one does: a script call at a time,
// or a plain command.
type command struct {
	request
	script string
	plain  []string
	now    int64
}

// mistake is one that somebody could make in a script: a piece becomes another.
type mistake struct{ from, to string }

var errHeld = errors.New("the request is on its way")

func newServer(plant mistake) *server {
	s := &server{plant: plant, vm: lua.NewState(lua.Options{SkipOpenLibs: true}), scripts: map[string]*lua.FunctionProto{}, texts: map[string]string{}}
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath} {
		s.vm.Push(s.vm.NewFunction(open))
		s.vm.Push(lua.LString(name))
		s.vm.Call(1, 0)
	}
	module := s.vm.NewTable()
	for name, raises := range map[string]bool{"call": true, "pcall": false} {
		module.RawSetString(name, s.vm.NewFunction(func(vm *lua.LState) int { return s.command(vm, raises) }))
	}
	module.RawSetString("error_reply", s.vm.NewFunction(func(vm *lua.LState) int {
		vm.Push(failure(vm, vm.CheckString(1)))
		return 1
	}))
	s.vm.SetGlobal("redis", module)
	return s
}

// command runs a command for a script.
func (s *server) command(vm *lua.LState, raises bool) int {
	args := make([]string, vm.GetTop())
	for i := range args {
		switch a := vm.Get(i + 1).(type) {
		case lua.LNumber:
			args[i] = text(float64(a))
		case lua.LString:
			args[i] = string(a)
		default:
			vm.RaiseError("argument %d of %v is a %s", i, args[0], a.Type())
		}
	}
	reply := s.do(args)
	if refused, ok := reply.(refusal); ok && raises {
		vm.RaiseError("%s", string(refused))
	}
	vm.Push(value(vm, reply))
	return 1
}

func failure(vm *lua.LState, text string) *lua.LTable {
	t := vm.NewTable()
	t.RawSetString("err", lua.LString(text))
	return t
}

func value(vm *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case refusal:
		return failure(vm, string(r))
	case []any:
		t := vm.CreateTable(len(r), 0)
		for _, v := range r {
			t.Append(value(vm, v))
		}
		return t
	default:
		return lua.LFalse
	}
}

// Process takes what package wire sends.
func (s *server) Process(_ context.Context, cmd redis.Cmder) error {
	args := make([]string, len(cmd.Args()))
	for i, a := range cmd.Args() {
		args[i] = fmt.Sprint(a)
	}
	var keys int
	_, err := fmt.Sscan(args[2], &keys)
	hash := args[1]
	if args[0] == "eval" {
		hash = redis.NewScript(hash).Hash()
		err = errors.Join(err, s.compile(hash, args[1]))
	}
	if err == nil {
		err = s.process(cmd.(interface{ SetVal(any) }), request{hash: hash, keys: args[3 : 3+keys], args: args[3+keys:]})
	}
	cmd.SetErr(err)
	return err
}

func (s *server) process(cmd interface{ SetVal(any) }, r request) error {
	if s.scripts[r.hash] == nil {
		return refusal("NOSCRIPT")
	}
	s.last = r
	if s.hold {
		return errHeld
	}
	reply, err := s.execute(r)
	s.last.reply = reply
	cmd.SetVal(reply)
	return err
}

func (s *server) compile(hash, source string) error {
	if s.plant.from != "" && strings.Contains(source, s.plant.from) {
		source, s.planted = strings.Replace(source, s.plant.from, s.plant.to, 1), true
	}
	chunk, err := parse.Parse(strings.NewReader(source), "script")
	if err == nil {
		s.texts[hash] = source
		s.scripts[hash], err = lua.Compile(chunk, "script")
	}
	return err
}

// expire deletes the keys whose time has come.
func (s *server) expire() {
	data, names := s.data.expire(s.now)
	s.data = data
	if len(names) > 0 && s.record != nil {
		s.record(command{plain: append([]string{"DEL"}, names...)})
	}
}

// execute runs a script, and returns its reply.
func (s *server) execute(r request) ([]any, error) {
	s.expire()
	s.calls++
	keys, args := make([]any, len(r.keys)), make([]any, len(r.args))
	for i, k := range r.keys {
		keys[i] = k
	}
	for i, a := range r.args {
		args[i] = a
	}
	s.vm.SetGlobal("KEYS", value(s.vm, keys))
	s.vm.SetGlobal("ARGV", value(s.vm, args))
	s.vm.Push(s.vm.NewFunctionFromProto(s.scripts[r.hash]))
	if err := s.vm.PCall(0, 1, nil); err != nil {
		return nil, refusal("ERR " + err.Error())
	}
	t, ok := s.vm.Get(-1).(*lua.LTable)
	s.vm.SetTop(0)
	if !ok {
		return nil, refusal("ERR the reply is no list")
	}
	if e, ok := t.RawGetString("err").(lua.LString); ok {
		return nil, refusal(e)
	}
	reply := make([]any, t.Len())
	for i := range reply {
		switch v := t.RawGetInt(i + 1).(type) {
		case lua.LNumber:
			reply[i] = int64(v)
		default:
			reply[i] = v.String()
		}
	}
	if s.record != nil {
		r.reply = reply
		s.record(command{request: r, script: s.texts[r.hash], now: s.now})
	}
	return reply, nil
}
