package world

import (
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// member is what one process does, and all that a world knows of it. The world is locked while it
// calls its methods, which return at once. What comes of a call is told to world.turn or world.fail.
type member interface {
	join(c *call)             // a call wants its turn
	giveUp(c *call)           // it does not want it any more
	done(c *call, used []int) // it was made: its slots are free, or it used so many permits
	pause(limit int, d time.Duration)
	resume(limit int)
	set(limit int, to reserve.Limit)
	reset(limit int)
	states(told func([]reserve.State, error)) // of all limits
	end()                                     // it ends in order
}

// process is one of the fleet.
type process struct {
	*link
	member
	n     int
	like  int // the process of the plan that it is like
	began time.Duration
}

// call is a call of a caller, from its wish to its end.
type call struct {
	n        int
	load     *load
	caller   int
	process  *process
	parts    []part
	deadline time.Duration // 0: none
	joined   time.Duration
	ripe     bool          // it has waited for long enough to count as waiting
	could    time.Duration // when all of its limits began to have permits for it
	state    state
	slotless bool   // its slots may be another's
	again    func() // lets its caller go on
}

// state is where a call stands.
type state int

const (
	waiting state = iota
	made          // it had its turn
	holding       // it had its turn, and holds slots
	missed        // its turn would have come after its deadline
	gaveUp        // its caller did not want to wait any longer
	failed        // it had another error
	lost          // its process died
)

func (s state) String() string {
	return [...]string{"waiting", "made", "holding", "missed", "gave up", "failed", "lost"}[s]
}

// start starts a process with the link of the nth one of the plan.
func (w *world) start(n int) *process {
	n %= len(w.plan.processes)
	like := w.plan.processes[n]
	p := &process{n: len(w.processes), like: n, began: w.now}
	if p.n >= len(w.plan.processes) {
		w.note("process %d starts", p.n)
	}
	p.link = &link{
		schedule: &w.schedule, server: w.server, events: w.plan.events, process: p.n, trip: like.trip, timeout: like.timeout,
		strikes: w.strikes, random: w.plan.source("link", p.n), pending: map[*request]bool{}, ears: map[*ear]bool{},
	}
	p.member = w.newMember(w, p)
	w.processes = append(w.processes, p)
	return p
}

// kill kills a process, and all that wait in it.
func (w *world) kill(n int) {
	if n < len(w.processes) {
		w.end(w.processes[n])
	}
}

func (w *world) end(p *process) {
	if p.dead {
		return
	}
	w.note("process %d is killed", p.n)
	p.dead = true
	for e := range p.ears {
		delete(w.server.listeners, e.listener)
	}
	for _, c := range w.calls {
		if c.process == p {
			w.finish(c, lost)
		}
	}
}

// breakAll breaks all connections to the server.
func (w *world) breakAll() {
	for _, p := range w.processes {
		p.breakAll()
	}
}

func (w *world) cutNews() {
	for _, p := range w.processes {
		p.cutNews()
	}
}

// key is where the server has the state of a limit.
func (w *world) key(limit int) string { return w.plan.keys(limit)[0] }
