package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/smallredis"
)

// server is a Redis that runs scripts on data and at a time that the explorer sets. Package wire takes it for a
// client: that never calls anything but Process, with EVALSHA and EVAL.
type server struct {
	redis.UniversalClient // nil
	db                    *smallredis.Redis

	news []string // that scripts have published since they were taken

	plant   mistake
	planted bool // a script had the piece that the mistake changes
	hold    bool // requests are kept and not run: they are on their way
	last    request
	record  func(command) // of everything that changes the data; nil: nobody replays it
	calls   int
	texts   map[string]string // of scripts, by the hash under which they are called
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
	s := &server{db: smallredis.New(), plant: plant, texts: map[string]string{}}
	s.db.Publish = func(_, message string) { s.news = append(s.news, message) }
	return s
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

// load loads a script, into which a mistake may be planted.
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
