package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/smallredis"
)

// server is a Redis that runs scripts on data and at a time that the explorer sets. For package wire it is
// a client: package wire calls Process alone, with EVALSHA and EVAL.
type server struct {
	redis.UniversalClient // nil
	db                    *smallredis.Redis

	news []string // that scripts have published since news were last read

	plant   mistake
	planted bool // a script contained the piece that the mistake changes
	hold    bool // requests are kept and not run, as they are on their way
	last    request
	record  func(command) // gets everything that changes the data; nil: nothing is replayed
	calls   int
	texts   map[string]string // of scripts, by the hash under which they are called
}

// request is a script call as it is sent, and the reply to it.
type request struct {
	hash       string
	keys, args []string
	reply      []any
}

// command is a script call at a time, or a plain command. A real Redis needs it to reach the state of the
// embedded one.
type command struct {
	request
	script string
	plain  []string
	now    int64
}

// mistake is a mistake that somebody could make in a script: a piece becomes another.
type mistake struct{ from, to string }

var errHeld = errors.New("the request is on its way")

func newServer(plant mistake) *server {
	s := &server{db: smallredis.New(), plant: plant, texts: map[string]string{}}
	s.db.Publish = func(_, message string) { s.news = append(s.news, message) }
	return s
}

// Process runs a command that package wire sends.
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
		s.load(hash, args[1])
	}
	if err == nil {
		err = s.process(cmd.(interface{ SetVal(any) }), request{hash: hash, keys: args[3 : 3+keys], args: args[3+keys:]})
	}
	cmd.SetErr(err)
	return err
}

func (s *server) process(cmd interface{ SetVal(any) }, r request) error {
	if s.texts[r.hash] == "" {
		return smallredis.Refusal("NOSCRIPT")
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

// load loads a script, and may plant a mistake in it.
func (s *server) load(hash, text string) {
	if s.plant.from != "" && strings.Contains(text, s.plant.from) {
		text, s.planted = strings.Replace(text, s.plant.from, s.plant.to, 1), true
	}
	s.texts[hash] = text
}

// execute runs a script, and returns its reply.
func (s *server) execute(r request) ([]any, error) {
	if names := s.db.Expire(); len(names) > 0 && s.record != nil {
		s.record(command{plain: append([]string{"DEL"}, names...)})
	}
	s.calls++
	said := s.db.Eval(s.texts[r.hash], r.keys, r.args)
	if refused, is := said.(smallredis.Refusal); is {
		return nil, refused
	}
	reply, _ := said.([]any)
	if s.record != nil {
		r.reply = reply
		s.record(command{request: r, script: s.texts[r.hash], now: s.db.Now})
	}
	return reply, nil
}
