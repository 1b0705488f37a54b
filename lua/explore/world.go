package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/smallredis"
	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/lua"
)

const (
	start   = 1_700_000_000_000_000 // when each world begins, in micros
	window  = 4_000_000             // of a quota
	horizon = 250_000
	near    = 60_000
	grace   = 300_000
	dead    = 3_000_000
	beat    = 1_000_000 // between two heartbeats, at most
	again   = 25_000    // after which a process repeats a request that has no reply
	ahead   = 1_000_000 // no turn is due later than that
	notes   = 1_200_000 // after which a process has told which slots it holds, once data was lost
)

// Config is a small world, and how far it is explored.
type Config struct {
	Name, What string
	Limits     []wire.Terms
	Calls      []Plan
	Way        time.Duration   // from Redis back to a process
	Lives      int             // how often each call is made
	Can        Action          // what may happen …
	Faults     int             // … and how often something goes wrong
	Steps      []time.Duration // for how long time passes; 0: until the next moment that a caller waits for
	Depth      int             // actions in the gate, one less under the race detector
	Every      int             // one of so many states is played on fairly, to see whether it is alive
	Sets       wire.Terms      // the limit that Set puts in force
	Blind      bool            // a mistake of callers: no process looks who holds slots
}

// Plan is what a call wants.
type Plan struct {
	Process  int
	Costs    []int64       // by limit; 0: it does not need it. nil: one of each
	Real     int64         // what it turns out to cost, where that is settled; 0: it is not
	ID       string        // of a call that may be booked; empty: it may not
	Patience time.Duration // see wire.ID
	Within   time.Duration // its deadline; 0: it has none
	Flow     wire.Flow
}

// Action is what may happen in a world, besides asks, replies, and time that passes.
type Action uint32

const (
	UseLate       Action = 1 << iota // a turn is used at its last moment, too
	Leave                            // a call gives up its place, or its turn
	Pause                            // somebody pauses the limits, and resumes them
	Set                              // somebody puts another limit in force, and resets it
	Free                             // somebody takes slots away
	Book                             // a call that waits is booked
	Oversleep                        // faults: a turn is slept through
	LoseReply                        // a reply never arrives
	DelayReply                       // a reply arrives late
	DelayCopy                        // a request arrives late, when it has been repeated
	StepBack                         // Redis's clock steps back
	StepAhead                        // or ahead
	Failover                         // a server with older data takes over
	QuietFailover                    // one that cannot be told from the one before
	Loss                             // all data is lost
	Kill                             // a process dies
	Vanish                           // a call gives up, and Redis is not told
)

type state int

const (
	idle    state = iota
	waiting       // it has a place
	unsure        // its ask has no reply
	coming        // the reply is on its way
	turn
	using  // slots
	spent  // its cost is to be settled
	booked // it comes back
	over
)

// call is a call of an abstract caller.
type call struct {
	state  state
	life   int
	number int64
	tags   [2]int64 // by limit
	due    int64    // when it asks again or uses its turn; below 0: it sleeps through it
	until  int64    // … until then
	serial int64    // of its last ask
	back   string
	alone  bool  // nobody else was in that ask
	freed  bool  // its slots were taken away
	from   int64 // of a turn: it may be used from then on …
	asked  int64 // when it asked first
	sure   bool  // its turn does not come sooner than it was told
}

// process is a process, and what it remembers.
type process struct {
	name   string
	serial int64
	limits []*wire.Limit
	ranks  []int64
	off    int64 // Redis's clock less the true time, as it heard it last
	met    bool  // Redis knows it
	run    string
	lost   time.Time
	dead   bool
}

// message is on its way: a request, whose reply nobody waits for, or a reply.
type message struct {
	process int
	request
	calls   []int
	heard   wire.Reply
	answers []wire.Answers
	sent    int64
}

// world is a state of everything. A world is never changed once another one was made from it.
type world struct {
	now, off  int64 // the true time, and Redis's clock less that
	run       int   // of the server
	data      smallredis.Data
	replica   smallredis.Data
	copied    bool // there is a replica that can take over
	processes []process
	calls     []call
	messages  []message
	providers []provider
	faults    int
	keeps     int64 // when processes tell which slots they hold, as data was lost; 0: they do not
	beaten    int64 // the last heartbeats
	paused    int64 // until then
	shaken    bool  // data was lost, or a replica took over
	troubled  int64 // until then those who wait may be late, as something went wrong
	broken    *violation

	lines    []string  // what has happened since the world before, where somebody reads it …
	commands []command // … and what a real Redis takes to do the same
}

// violation is a law that does not hold.
type violation struct{ Law, What string }

func (v *violation) Error() string { return v.Law + ": " + v.What }

// child is a copy to be changed.
func (w *world) child() *world {
	c := *w
	c.lines, c.commands = nil, nil
	c.processes, c.calls, c.messages, c.providers = slices.Clone(w.processes), slices.Clone(w.calls), slices.Clone(w.messages), slices.Clone(w.providers)
	for i := range c.providers {
		c.providers[i].uses = slices.Clone(c.providers[i].uses)
	}
	return &c
}

func (w *world) fail(law, format string, args ...any) {
	if w.broken == nil {
		w.broken = &violation{law, fmt.Sprintf(format, args...)}
	}
}

func (w *world) redis() int64 { return w.now + w.off }

func (w *world) runID() string { return fmt.Sprintf("%012x", w.run+1) }

// explorer plays worlds of a config.
type explorer struct {
	*server
	Config
	keys     [][]string  // by limit: see lua.Keys
	named    []wire.Name // that processes tell of with their heartbeats
	told     []string    // what has happened, for people; nil: nobody reads it
	commands []command   // what a real Redis takes to do the same

	permutations [][]int // see orders
}

func newExplorer(c Config, plant mistake) *explorer {
	x := &explorer{server: newServer(plant), Config: c}
	for j, l := range c.Limits {
		text := fmt.Sprintf("api%d", j)
		x.keys = append(x.keys, lua.Keys("explore", "group", text, l.Kind, ""))
		beat := lua.BeatKeys("explore", "group", text)
		x.named = append(x.named, wire.Name{Text: text, Kind: l.Kind, Pace: 1e6 / l.A, Limit: fmt.Sprint(l.A, " ", l.B), Life: beat[:2], Keys: beat[2:]})
		if l.Kind == "q" {
			x.Limits[j].Edges = edges
		}
	}
	return x
}

func edges(micros int64) (edges []int64) {
	for k := range int64(5) {
		edges = append(edges, (micros/window+k)*window)
	}
	return edges
}

// cost is what a call wants of a limit.
func (x *explorer) cost(c, limit int) int64 {
	if costs := x.Calls[c].Costs; costs != nil {
		return costs[limit]
	}
	return 1
}

// number is that of a call in one of its lives: in its process no other one has it.
func (x *explorer) number(c, life int) int64 {
	n := int64(100*life + 1)
	for _, plan := range x.Calls[:c] {
		n += count(plan.Process == x.Calls[c].Process)
	}
	return n
}

// first is the world in which nobody has asked yet.
func (x *explorer) first() *world {
	w := &world{now: start}
	for c, plan := range x.Calls {
		w.calls = append(w.calls, call{number: x.number(c, 0)})
		for len(w.processes) <= plan.Process {
			p := process{name: fmt.Sprintf("p%d", len(w.processes)), ranks: make([]int64, len(x.Limits))}
			for j, l := range x.Limits {
				p.limits = append(p.limits, wire.NewLimit(l, x.keys[j], new(wire.Name)))
			}
			w.processes = append(w.processes, p)
		}
	}
	for _, l := range x.Limits {
		w.providers = append(w.providers, provider{kind: l.Kind, a: l.A, b: l.B, tat: start - 1e12})
	}
	x.beats(w)
	return w
}

// say notes what happens, for people.
func (x *explorer) say(w *world, format string, args ...any) {
	if x.told != nil {
		w.lines = append(w.lines, fmt.Sprintf(format, args...))
	}
}

// can reports whether all of some actions may happen.
func (x *explorer) can(a Action) bool { return x.Can&a == a }

// mayFail is can for something that goes wrong.
func (x *explorer) mayFail(w *world, a Action) bool { return x.can(a) && w.faults < x.Faults }

// id is that of a call which may be booked: another one in each life.
func (x *explorer) id(c, life int) string { return fmt.Sprint(x.Calls[c].ID, life) }

// name is that of a call, for people.
func name(c int) string { return string(rune('a' + c)) }

func names(calls []int) string {
	var all []string
	for _, c := range calls {
		all = append(all, name(c))
	}
	return strings.Join(all, ", ")
}
