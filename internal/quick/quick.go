// Package quick has a miniredis that runs scripts in half of the time. It is for tests.
//
// miniredis makes a Lua interpreter for each script, and two buffers for each command of a script. The race detector
// records all of this memory. Here the interpreter and the buffers are kept. Commands are those of miniredis.
package quick

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // Redis names scripts so
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	luavm "github.com/yuin/gopher-lua"

	"github.com/fleetpace/fleetpace/internal/interpreter"
)

// Redis is a miniredis without a port, whose keys expire by the clock.
type Redis struct {
	*miniredis.Miniredis
	server  *server.Server
	refuses atomic.Pointer[string]
	plain   atomic.Bool // scripts run as in miniredis

	// Its lock guards what follows.
	texts  map[string]string // of scripts, by hash
	state  *luavm.LState
	peer   *server.Peer // what scripts send their commands as
	nested any          // says that a command comes from a script
	reply  bytes.Buffer
	read   *bufio.Reader
}

// New starts a Redis.
func New() (*Redis, error) {
	r := &Redis{Miniredis: miniredis.NewMiniRedis(), texts: map[string]string{}}
	r.ClockTTL(true)
	first, err := r.Dial()
	if err != nil {
		return nil, fmt.Errorf("quick: %w", err)
	}
	_ = first.Close()
	r.server = r.Server()

	// How miniredis marks commands of scripts is its secret. A script that it runs itself has the mark.
	r.read, r.peer = bufio.NewReader(&r.reply), server.NewPeer(bufio.NewWriter(&r.reply))
	caller := server.NewPeer(bufio.NewWriter(&bytes.Buffer{}))
	r.server.SetPreHook(func(c *server.Peer, _ string, _ ...string) bool {
		if c != caller {
			r.nested = c.Ctx
		}
		return false
	})
	r.server.Dispatch(caller, []string{"EVAL", "redis.call('PING')", "0"})
	r.peer.Ctx = r.nested

	r.state = interpreter.New(luavm.Options{})
	api := r.state.NewTable()
	for name, f := range map[string]luavm.LGFunction{
		"call":  func(*luavm.LState) int { return r.call(false) },
		"pcall": func(*luavm.LState) int { return r.call(true) },
		"error_reply": func(l *luavm.LState) int {
			l.Push(r.table("err", l.CheckString(1)))
			return 1
		},
	} {
		api.RawSetString(name, r.state.NewFunction(f))
	}
	r.state.SetGlobal("redis", api)
	r.server.SetPreHook(r.before)
	return r, nil
}

// SetError makes Redis refuse every command. An empty text ends that.
func (r *Redis) SetError(text string) {
	if r.refuses.Store(&text); text == "" {
		r.refuses.Store(nil)
	}
}

// RequireAuth lets miniredis judge who may run scripts.
func (r *Redis) RequireAuth(password string) {
	r.plain.Store(true)
	r.Miniredis.RequireAuth(password)
}

// before runs a script, or leaves the command to miniredis.
func (r *Redis) before(c *server.Peer, command string, args ...string) bool {
	if c == r.peer {
		return false
	}
	if text := r.refuses.Load(); text != nil {
		c.WriteError(*text)
		return true
	}
	if r.plain.Load() || len(args) < 2 || !strings.HasPrefix(command, "EVAL") {
		return false // it may come from a script that miniredis runs, which has the lock
	}
	r.Lock()
	defer r.Unlock()
	text := args[0]
	switch command {
	case "EVALSHA", "EVALSHA_RO":
		known := false
		if text, known = r.texts[strings.ToLower(text)]; !known {
			return false
		}
	default:
		hash := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts so
		r.texts[hex.EncodeToString(hash[:])] = text
	}
	var keys int
	if _, err := fmt.Sscan(args[1], &keys); err != nil || keys < 0 || keys > len(args)-2 {
		return false
	}
	r.run(c, text, args[2:2+keys], args[2+keys:])
	return true
}

func (r *Redis) run(c *server.Peer, text string, keys, args []string) {
	f, err := interpreter.Compile(text, "")
	if err == nil {
		r.state.SetGlobal("KEYS", r.list(keys))
		r.state.SetGlobal("ARGV", r.list(args))
		r.state.Push(r.state.NewFunctionFromProto(f))
		err = r.state.PCall(0, luavm.MultRet, nil)
	}
	if err != nil {
		c.WriteError("ERR Error compiling script (new function): " + err.Error()) // as miniredis says it
	} else {
		write(c, r.state.Get(1))
	}
	r.state.SetTop(0)
}

func (r *Redis) list(all []string) *luavm.LTable {
	t := r.state.CreateTable(len(all), 0)
	for i, text := range all {
		t.RawSetInt(i+1, luavm.LString(text))
	}
	return t
}

func (r *Redis) table(field, text string) *luavm.LTable {
	t := r.state.NewTable()
	t.RawSetString(field, luavm.LString(text))
	return t
}

// call is redis.call, or redis.pcall if it is protected.
func (r *Redis) call(protected bool) int {
	l := r.state
	args := make([]string, l.GetTop())
	for i := range args {
		switch a := l.Get(i + 1).(type) {
		case luavm.LNumber:
			args[i] = a.String()
		case luavm.LString:
			args[i] = string(a)
		default:
			l.RaiseError("redis.call: argument %d is a %v", i+1, a.Type())
		}
	}
	r.server.Dispatch(r.peer, args)
	r.peer.Flush()
	reply, err := server.ParseReply(r.read)
	r.reply.Reset()
	r.read.Reset(&r.reply)
	switch {
	case err == nil:
		l.Push(r.value(reply))
	case protected:
		l.Push(r.table("err", err.Error()))
	default:
		l.Error(luavm.LString(err.Error()), 1)
	}
	return 1
}

func (r *Redis) value(reply any) luavm.LValue {
	switch v := reply.(type) {
	case int:
		return luavm.LNumber(v)
	case string:
		return luavm.LString(v)
	case server.Simple:
		return r.table("ok", string(v))
	case []any:
		t := r.state.CreateTable(len(v), 0)
		for i, item := range v {
			t.RawSetInt(i+1, r.value(item))
		}
		return t
	}
	return luavm.LFalse
}

func write(c *server.Peer, value luavm.LValue) {
	switch v := value.(type) {
	case luavm.LNumber:
		c.WriteInt(int(v))
	case luavm.LString:
		c.WriteBulk(string(v))
	case *luavm.LTable:
		if text, ok := v.RawGetString("err").(luavm.LString); ok {
			c.WriteError(string(text))
			return
		}
		if text, ok := v.RawGetString("ok").(luavm.LString); ok {
			c.WriteInline(string(text))
			return
		}
		n := v.Len()
		c.WriteLen(n)
		for i := range n {
			write(c, v.RawGetInt(i+1))
		}
	default:
		if luavm.LVAsBool(value) {
			c.WriteInt(1)
			return
		}
		c.WriteNull()
	}
}
