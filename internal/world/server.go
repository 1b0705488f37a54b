package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/internal/smallredis"
)

// verbOf maps the hash of each script to its name.
var verbOf = func() map[string]string {
	all := map[string]string{}
	for _, texts := range []map[string]string{frozen.Current, frozen.Texts, laterTexts, addedTexts} {
		for verb, text := range texts {
			all[redis.NewScript(text).Hash()] = verb
		}
	}
	return all
}()

// server is a simulated Redis. It runs the shipping scripts, one command at a time. Each command takes some
// time.
type server struct {
	*schedule
	*smallredis.Redis
	run    int                      // the number of the server
	loaded map[string]string        // texts of scripts, by hash
	wrong  func(text string) string // plants a mistake into a script; nil: none
	wrongs map[string]string        // texts with the mistake, by the hash of the script
	epoch  time.Duration            // Redis's time when the world began, since 1970
	step   time.Duration            // how far its clock has stepped since

	down    bool          // connections are refused
	frozen  bool          // it answers nothing until it continues
	refuses string        // the error of every command; empty: none
	busy    time.Duration // until when it works on received commands
	waiting []func()      // requests that came while it was frozen

	listeners []*listener
	added     []time.Duration // when it published messages of a form that the next protocol has added

	calls map[string]int                         // script calls, by verb
	ran   func(verb string, keys, args []string) // called after each script that did not fail; nil: not called
	work  time.Duration                          // the time that scripts took
}

// listener is a connection that hears news.
type listener struct {
	channel string
	hear    func(message string)
}

// forget removes a closed connection.
func (r *server) forget(l *listener) {
	r.listeners = slices.DeleteFunc(r.listeners, func(o *listener) bool { return o == l })
}

func newServer(s *schedule) *server {
	r := &server{
		schedule: s, Redis: smallredis.New(), loaded: map[string]string{}, wrongs: map[string]string{},
		epoch: 1_700_000_000 * time.Second, calls: map[string]int{},
	}
	r.named()
	return r
}

// The time that scripts take. With one waiting call a script takes 72 µs, and 11.5 µs more for each further
// one; if no call waits, it takes 15 µs. See the costs of commands in docs/redis.md.
const (
	idleScript    = 15 * time.Microsecond
	generalScript = 56 * time.Microsecond
	eachCommand   = 3 * time.Microsecond
	idleCommands  = 4
)

// receive runs a command when the server is free, and replies then. A server that is down does not reply.
func (r *server) receive(args []string, reply func(any)) {
	if r.frozen {
		r.waiting = append(r.waiting, func() { r.receive(args, reply) })
		return
	}
	begin := max(r.now, r.busy)
	r.busy = begin // the time that it takes is known after it has run
	r.at(begin, func() {
		switch {
		case r.down:
		case r.refuses != "":
			reply(smallredis.Refusal(r.refuses))
		default:
			var heard []func()
			answer, took := r.carryOut(args, &heard)
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

// carryOut runs a command, and returns how long that takes. News that it publishes are added to heard.
func (r *server) carryOut(args []string, heard *[]func()) (answer any, took time.Duration) {
	r.Now = (r.epoch + r.now + r.step).Microseconds()
	r.Expire()
	r.Publish = func(channel, message string) {
		if strings.HasPrefix(message, addedForm) {
			r.added = append(r.added, r.now)
		}
		for _, l := range r.listeners {
			if l.channel == channel {
				*heard = append(*heard, func() { l.hear(message) })
			}
		}
	}
	switch args[0] {
	case "evalsha", "evalsha_ro":
		text, ok := r.loaded[args[1]]
		if !ok {
			return smallredis.Refusal("NOSCRIPT No matching script. Please use EVAL."), idleScript
		}
		return r.eval(args[1], text, args)
	case "eval", "eval_ro":
		hash := redis.NewScript(args[1]).Hash()
		r.loaded[hash] = args[1]
		return r.eval(hash, args[1], args)
	}
	args[0] = strings.ToUpper(args[0])
	return r.Do(args), time.Microsecond
}

func (r *server) eval(hash, text string, args []string) (answer any, took time.Duration) {
	verb := verbOf[hash]
	if r.wrong != nil && text != frozen.Texts[verb] {
		if r.wrongs[hash] == "" {
			r.wrongs[hash] = r.wrong(text)
		}
		text = r.wrongs[hash]
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return smallredis.Refusal("ERR value is not an integer or out of range"), 0
	}
	answer = r.Eval(text, args[3:3+n], args[3+n:])
	r.calls[verb]++
	if _, refused := answer.(smallredis.Refusal); r.ran != nil && !refused {
		r.ran(verb, args[3:3+n], args[3+n:])
	}
	took = idleScript
	if r.Commands > idleCommands {
		took = generalScript + time.Duration(r.Commands)*eachCommand
	}
	r.work += took
	return answer, took
}

// answered returns how many asks the server has answered.
func (r *server) answered() int { return r.calls["ask"] + r.calls["take"] }

// restart replaces the server by another one, with older data or without data.
func (r *server) restart(data smallredis.Data) {
	r.run++
	r.Data = data
	r.named()
	clear(r.loaded)
	r.listeners = nil
}

// named sets the run ID of the server, which INFO returns. Processes use its first 12 digits.
func (r *server) named() { r.Run = fmt.Sprintf("%012x%028d", r.run+1, 0) }

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
