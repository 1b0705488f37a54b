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
	window  = 4_000_000             // the length of a quota's window
	horizon = 250_000
	near    = 60_000
	grace   = 300_000
	dead    = 3_000_000
	beat    = 1_000_000 // the most between two heartbeats
	again   = 25_000    // after it, a process repeats a request that has no reply
	ahead   = 1_000_000 // no turn is due later than that
	notes   = 1_200_000 // after a loss of data, all processes have reported their slots by then
)

// Config is a small world, and how far it is explored.
type Config struct {
	Name, What string
	Limits     []wire.Terms
	Calls      []Plan
	Way        time.Duration   // the time from Redis back to a process
	Lives      int             // how often each call is made
	Can        Action          // what may happen
	Faults     int             // how many faults there may be
	Steps      []time.Duration // how long time passes; 0: until the next moment for which a caller waits
	Depth      int             // actions in the gate, one less under the race detector
	Every      int             // one in so many states is played on without faults, to check the law "alive"
	Sets       wire.Terms      // the limit that Set puts in force
	Blind      bool            // a mistake of callers: no process checks who holds slots
}

// Plan is what a call needs.
type Plan struct {
	Process  int
	Costs    []int64       // by limit; 0: it does not need the limit. nil: one permit of each
	Real     int64         // its cost in the end, if it settles; 0: it does not settle
	ID       string        // of a call that may be booked; empty: it may not
	Patience time.Duration // see wire.ID
	Within   time.Duration // its deadline; 0: it has none
	Flow     wire.Flow
}

// Action is what may happen in a world, in addition to asks, replies, and time that passes.
type Action uint32

const (
	UseLate       Action = 1 << iota // a turn is used at its last moment, too
	Leave                            // a call gives up its place, or its turn
	Pause                            // an operator pauses the limits, and resumes them
	Set                              // an operator puts another limit in force, and resets it
	Free                             // an operator takes slots away
	Book                             // a waiting call is booked
	Oversleep                        // faults: a call does not use its turn in time
	LoseReply                        // a reply never arrives
	DelayReply                       // a reply arrives late
	DelayCopy                        // a request arrives late, after it was repeated
	StepBack                         // Redis's clock steps back
	StepAhead                        // Redis's clock steps ahead
	Failover                         // a server with older data takes over
	QuietFailover                    // a failover that processes cannot notice
	Loss                             // all data is lost
	Kill                             // a process dies
	Vanish                           // a call gives up, without a message to Redis
)

type state int

const (
	idle    state = iota
	waiting       // it has a place
	unsure        // its ask has no reply
	coming        // the reply is on its way
	turn
	using  // it holds slots
	spent  // its cost is not settled yet
	booked // it comes back later
	over
)

// call is a call of an abstract caller.
type call struct {
	state  state
	life   int
	number int64
	tags   [2]int64 // by limit
	due    int64    // when it asks again or uses its turn; below 0: it does not use its turn in time
	until  int64    // when its turn ends
	serial int64    // of its last ask
	back   string
	alone  bool  // it was the only call of that ask
	freed  bool  // its slots were taken away
	from   int64 // when its turn begins
	asked  int64 // when it first asked
	sure   bool  // its turn does not come sooner than its forecast
}

// process is a process, with all that it remembers.
type process struct {
	name   string
	serial int64
	limits []*wire.Limit
	ranks  []int64
	off    int64 // Redis's clock less the true time, as in the last reply
	met    bool  // Redis knows it
	run    string
	lost   time.Time
	dead   bool
}

// message is on its way: a request whose reply nobody waits for, or a reply.
type message struct {
	process int
	request
	calls   []int
	heard   wire.Reply
	answers []wire.Answers
	sent    int64
}

// world is a state of everything. A world is not changed any more after another one was made from it.
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
	keeps     int64 // when processes report their slots after a loss of data; 0: they do not
	beaten    int64 // when the last heartbeats were sent
	paused    int64 // when the pause ends
	shaken    bool  // data was lost, or a replica took over
	troubled  int64 // until then waiting calls may be late, because of a fault
	broken    *violation

	lines    []string  // what has happened since the world before, if it is recorded
	commands []command // commands that make a real Redis do the same
}

// violation is a law that does not hold.
type violation struct{ Law, What string }

func (v *violation) Error() string { return v.Law + ": " + v.What }

// child returns a copy that may be changed.
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

// explorer plays the worlds of a config.
type explorer struct {
	*server
	Config
	keys     [][]string  // by limit: see lua.Keys
	named    []wire.Name // names that processes send in their heartbeats
	told     []string    // what has happened, for people; nil: it is not recorded
	commands []command   // commands that make a real Redis do the same

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

// cost returns what a call costs at a limit.
func (x *explorer) cost(c, limit int) int64 {
	if costs := x.Calls[c].Costs; costs != nil {
		return costs[limit]
	}
	return 1
}

// number returns the number of a call in one of its lives. No other call of its process has it.
func (x *explorer) number(c, life int) int64 {
	n := int64(100*life + 1)
	for _, plan := range x.Calls[:c] {
		n += count(plan.Process == x.Calls[c].Process)
	}
	return n
}

// first returns the world in which no call has asked yet.
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
		w.providers = append(w.providers, provider{kind: l.Kind, a: l.A, b: l.B - float64(l.Late), tat: start - 1e12})
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

// mayFail is can for a fault.
func (x *explorer) mayFail(w *world, a Action) bool { return x.can(a) && w.faults < x.Faults }

// id returns the ID of a call that may be booked. It differs in each life.
func (x *explorer) id(c, life int) string { return fmt.Sprint(x.Calls[c].ID, life) }

// name returns the name of a call, for people.
func name(c int) string { return string(rune('a' + c)) }

func names(calls []int) string {
	var all []string
	for _, c := range calls {
		all = append(all, name(c))
	}
	return strings.Join(all, ", ")
}
