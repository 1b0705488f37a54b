package world

import (
	"maps"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// process is a process of the fleet.
type process struct {
	*link
	*client
	n       int
	other   int           // the index of the limit that has another kind in this process …
	kind    reserve.Limit // … which is this limit …
	strange bool          // … if this is set
	like    int           // the process of the plan whose settings it has
	version string
	began   time.Duration
	called  time.Duration // when it had its first call; 0: never
}

// call is a call of a caller, from its beginning to its end.
type call struct {
	n        int
	load     *load
	caller   int
	process  *process
	line     string // the calls of its process that need the same permits
	parts    []part
	meters   []*meter      // the meters of its parts
	deadline time.Duration // 0: none
	joined   time.Duration
	came     time.Duration // when it first asked, before it was booked
	ripe     bool          // it has waited long enough to count as waiting
	could    time.Duration // when all of its limits began to have permits for it
	state    state
	slotless bool   // its slots may belong to another call
	id       string // the ID of a call that may be booked; empty: it has none
	back     bool   // it was booked before
	waits    bool   // its engine knows that a caller waits for it
	comes    bool   // its caller comes for its turn
	madeAt   time.Duration
	unjudged bool   // it is not judged: see opens
	stopped  bool   // a hard stop has ended it
	again    func() // makes its caller continue
}

// state is the state of a call.
type state int

const (
	waiting state = iota
	made          // it had its turn
	holding       // it had its turn, and holds slots
	missed        // its turn would have come after its deadline
	booked        // its turn was not there at once, and it is booked
	gaveUp        // its caller did not want to wait any longer
	failed        // it had another error
	lost          // its process died
)

func (s state) String() string {
	return [...]string{"waiting", "made", "holding", "missed", "booked", "gave up", "failed", "lost"}[s]
}

// start starts a process with the link of the nth process of the plan.
func (w *world) start(n int) *process {
	n %= len(w.plan.processes)
	like := w.plan.processes[n]
	p := &process{n: len(w.processes), like: n, version: like.version, began: w.now}
	if p.n >= len(w.plan.processes) {
		w.note("process %d starts", p.n)
	}
	p.link = &link{
		schedule: &w.schedule, server: w.server, events: w.plan.events, process: p.n, trip: like.trip, timeout: like.timeout,
		strikes: w.strikes, random: w.plan.source("link", p.n), pending: map[*request]bool{},
	}
	p.client = newClient(w, p)
	w.processes = append(w.processes, p)
	return p
}

// kill kills a process, and all calls that wait in it.
func (w *world) kill(n int) {
	if n < len(w.processes) {
		w.losesLargest(w.processes[n])
		w.end(w.processes[n])
	}
}

// stop stops a process, or makes it continue.
func (w *world) stop(n int, stopped bool) {
	if n >= len(w.processes) {
		return
	}
	if w.advance(); stopped {
		w.losesTurns(w.processes[n])
		w.losesLargest(w.processes[n])
		w.processes[n].stop()
	} else {
		w.processes[n].goOn()
	}
}

func (w *world) end(p *process) {
	if p.dead {
		return
	}
	w.note("process %d is killed", p.n)
	w.losesTurns(p)
	p.dead = true
	if p.ear != nil {
		p.ear.close()
	}
	for _, c := range w.all() {
		if c.process == p {
			w.finish(c, lost)
		}
	}
}

// losesTurns notes the turns that a process may have been granted and will not use.
func (w *world) losesTurns(p *process) {
	if p.dead || p.stopped {
		return
	}
	for _, m := range w.meters {
		m.gone += p.asksFor(m)
	}
	for _, c := range w.all() {
		if c.process == p && c.state == waiting && p.isGranted(c) {
			for i, m := range w.metersOf(c) {
				m.gone += float64(c.parts[i].cost)
			}
		}
	}
}

// losesLargest notes the largest turn that a process may have been granted, of each limit, and will not use.
func (w *world) losesLargest(p *process) {
	if p.dead || p.stopped {
		return
	}
	for _, m := range w.meters {
		largest := p.largestAsked(m)
		for _, c := range w.all() {
			if i := slices.Index(w.metersOf(c), m); i >= 0 && c.process == p && c.state == waiting && p.isGranted(c) {
				largest = max(largest, float64(c.parts[i].cost))
			}
		}
		m.largest += largest
	}
}

// largestAsked returns the highest cost of a call for which an ask in flight asks at a limit.
func (m *client) largestAsked(of *meter) (cost float64) {
	key := m.world.plan.keys(of.limit, of.key)[0]
	for b := range m.asks {
		for i := range b.Items {
			for _, p := range b.Items[i].Parts {
				if b.Call.Limits[p.Limit].Keys[0] == key {
					cost = max(cost, float64(p.Cost))
				}
			}
		}
	}
	return cost
}

// all returns the calls that wait or hold slots, in the order in which they came.
func (w *world) all() []*call {
	return slices.SortedFunc(maps.Values(w.calls), func(a, b *call) int { return a.n - b.n })
}

// breakAll breaks all connections to the server.
func (w *world) breakAll() {
	for _, p := range w.processes {
		p.breakAll()
	}
	w.cutNews()
}

// cutNews breaks the connections that hear news.
func (w *world) cutNews() {
	for _, p := range w.processes {
		if e := p.ear; e != nil {
			p.happens(e.fail)
		}
	}
}

// key returns the key of the state of a limit.
func (w *world) key(limit int) string { return w.plan.keys(limit, "")[0] }
