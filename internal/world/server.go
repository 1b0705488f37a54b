package world

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a played Redis: it runs the scripts that ship, one command at a time, each of which
// takes its time.
type server struct {
	*schedule
	db      *database
	scripts *interpreter
	loaded  map[string]string        // texts of scripts, by hash
	wrong   func(text string) string // plants a mistake into a script; nil: none
	epoch   time.Duration            // Redis's time when the world began, since 1970
	step    time.Duration            // by which its clock has stepped since

	down    bool          // connections are refused
	frozen  bool          // it answers nothing until it goes on
	refuses string        // the error that it gives to every command; empty: none
	busy    time.Duration // until when it works at what it has received
	waiting []func()      // requests that came while it was frozen

	listeners map[*listener]bool

	calls map[string]int                         // script calls, by verb
	ran   func(verb string, keys, args []string) // told of each; nil: nobody is
	work  time.Duration                          // that scripts took
}

// listener is a connection that hears news.
type listener struct {
	channel string
	hear    func(message string)
}

func newServer(s *schedule) *server {
	db := newDatabase()
	r := &server{
		schedule: s, db: db, scripts: newInterpreter(db), loaded: map[string]string{},
		epoch: 1_700_000_000 * time.Second, listeners: map[*listener]bool{}, calls: map[string]int{},
	}
	return r
}

// What scripts take. With one call that waits a script takes 72 µs and 11.5 µs more for each further
// one; where nobody waits it takes 15 µs. See the costs of commands in docs/redis.md.
const (
	idleScript    = 15 * time.Microsecond
	generalScript = 56 * time.Microsecond
	eachCommand   = 3 * time.Microsecond
	idleCommands  = 4
)

// receive runs a command when its turn has come, and replies then. A server that is down replies
// nothing.
func (r *server) receive(args []string, reply func(any)) {
	if r.frozen {
		r.waiting = append(r.waiting, func() { r.receive(args, reply) })
		return
	}
	begin := max(r.now, r.busy)
	r.busy = begin // what it takes is known once it has run
	r.at(begin, func() {
		switch {
		case r.down:
		case r.refuses != "":
			reply(refusal(r.refuses))
		default:
			var heard []func()
			answer, took := r.run(args, &heard)
			r.busy = max(r.busy, r.now) + took
			r.at(r.busy, func() {
				for _, tell := range heard {
					tell()
				}
				reply(answer)
			})
		}
	})
}

// run runs a command, and returns what it takes. News that it tells are added to heard.
func (r *server) run(args []string, heard *[]func()) (answer any, took time.Duration) {
	r.db.now = r.epoch + r.now + r.step
	r.db.expire()
	r.db.commands, r.db.wrote = 0, false
	r.db.publish = func(channel, message string) {
		for l := range r.listeners {
			if l.channel == channel {
				*heard = append(*heard, func() { l.hear(message) })
			}
		}
	}
	switch args[0] {
	case "evalsha", "evalsha_ro":
		text, ok := r.loaded[args[1]]
		if !ok {
			return refusal("NOSCRIPT No matching script. Please use EVAL."), idleScript
		}
		return r.eval(args[1], text, args)
	case "eval", "eval_ro":
		hash := redis.NewScript(args[1]).Hash()
		r.loaded[hash] = args[1]
		return r.eval(hash, args[1], args)
	}
	args[0] = strings.ToUpper(args[0])
	return r.db.do(args), time.Microsecond
}

func (r *server) eval(hash, text string, args []string) (answer any, took time.Duration) {
	verb := verbOf[hash]
	if r.wrong != nil {
		text = r.wrong(text)
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return refusal("ERR value is not an integer or out of range"), 0
	}
	answer = r.scripts.run(text, args[3:3+n], args[3+n:])
	r.calls[verb]++
	if r.ran != nil {
		r.ran(verb, args[3:3+n], args[3+n:])
	}
	took = idleScript
	if r.db.commands > idleCommands {
		took = generalScript + time.Duration(r.db.commands)*eachCommand
	}
	r.work += took
	return answer, took
}

// restart lets another server, which has the data of another time or none, take over.
func (r *server) restart(data map[string]*value) {
	r.db.run++
	r.db.keys = map[string]*value{}
	for key, v := range data {
		r.db.keys[key] = v
	}
	clear(r.loaded)
	clear(r.listeners)
}

// freeze stops the server, as SIGSTOP does, until thaw.
func (r *server) freeze() { r.frozen = true }

func (r *server) thaw() {
	r.frozen = false
	waiting := r.waiting
	r.waiting = nil
	for _, run := range waiting {
		run()
	}
}
