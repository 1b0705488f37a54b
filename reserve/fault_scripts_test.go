package reserve_test

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// scripts runs the scripts of a history on the interpreter that miniredis uses,
// with one interpreter for all calls: making one takes longer than a call. The
// commands of a script go to miniredis one by one; whoever uses this lets nothing
// else run meanwhile.
type scripts struct {
	server *server.Server
	state  *lua.LState
	known  map[string]string // by SHA
	out    bytes.Buffer      // replies to a script's commands
	peer   *server.Peer
}

func newScripts(s *server.Server) *scripts {
	e := &scripts{server: s, known: map[string]string{}, state: lua.NewState()}
	e.peer = server.NewPeer(bufio.NewWriter(&e.out))
	e.state.SetGlobal("redis", e.state.SetFuncs(e.state.NewTable(), map[string]lua.LGFunction{
		"call": e.call, "pcall": e.pcall, "error_reply": errorReply,
	}))
	return e
}

// compiled holds what all histories share, by the text of the script.
var compiled sync.Map

func compile(text string) (*lua.FunctionProto, error) {
	if proto, ok := compiled.Load(text); ok {
		return proto.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "script")
	if err == nil {
		compiled.Store(text, proto)
	}
	return proto, err
}

// eval is EVAL and EVALSHA; instead maps the SHA of a script to a text that runs
// in its place.
func (e *scripts) eval(c *server.Peer, args []string, instead map[string]string) {
	sha, count := args[1], 0
	if strings.EqualFold(args[0], "EVAL") {
		sha = sha1Of(args[1])
		e.known[sha] = args[1]
	}
	text, ok := e.known[sha]
	if !ok {
		c.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	if other := instead[sha]; other != "" {
		text = other
	}
	count, _ = strconv.Atoi(args[2])
	e.state.SetGlobal("KEYS", e.list(args[3:3+count]))
	e.state.SetGlobal("ARGV", e.list(args[3+count:]))
	proto, err := compile(text)
	if err == nil {
		e.state.SetTop(0)
		err = e.state.CallByParam(lua.P{Fn: e.state.NewFunctionFromProto(proto), NRet: 1, Protect: true})
	}
	if err != nil {
		c.WriteError("ERR " + err.Error())
		return
	}
	reply(c, e.state.Get(1))
}

func (e *scripts) list(texts []string) *lua.LTable {
	t := e.state.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// call is redis.call.
func (e *scripts) call(l *lua.LState) int {
	answer, err := e.command(l)
	if err != nil {
		l.Error(lua.LString(err.Error()), 1)
		return 0
	}
	l.Push(e.value(answer))
	return 1
}

// pcall is redis.pcall: an error is a value.
func (e *scripts) pcall(l *lua.LState) int {
	answer, err := e.command(l)
	if err != nil {
		t := l.NewTable()
		t.RawSetString("err", lua.LString(err.Error()))
		l.Push(t)
		return 1
	}
	l.Push(e.value(answer))
	return 1
}

// command carries out the command of a script.
func (e *scripts) command(l *lua.LState) (any, error) {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = l.Get(i + 1).String()
	}
	e.out.Reset()
	e.server.Dispatch(e.peer, args)
	e.peer.Flush()
	return server.ParseReply(bufio.NewReaderSize(&e.out, 64))
}

func (e *scripts) value(answer any) lua.LValue {
	switch v := answer.(type) {
	case nil:
		return lua.LFalse
	case int:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	case []byte:
		return lua.LString(v)
	case string:
		return lua.LString(v)
	case []any:
		t := e.state.CreateTable(len(v), 0)
		for _, item := range v {
			t.Append(e.value(item))
		}
		return t
	default: // a status
		return lua.LTrue
	}
}

func errorReply(l *lua.LState) int {
	t := l.NewTable()
	t.RawSetString("err", lua.LString(l.CheckString(1)))
	l.Push(t)
	return 1
}

// reply writes what a script returned.
func reply(c *server.Peer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LNumber:
		c.WriteInt(int(v))
	case lua.LString:
		c.WriteBulk(string(v))
	case *lua.LTable:
		if text, failed := v.RawGetString("err").(lua.LString); failed {
			c.WriteError(string(text))
			return
		}
		c.WriteLen(v.Len())
		v.ForEach(func(_, item lua.LValue) { reply(c, item) })
	default:
		c.WriteNull()
	}
}
