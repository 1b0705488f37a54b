package world

import (
	"fmt"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// world is a history at work.
type world struct {
	schedule
	mu        sync.Mutex
	began     time.Time
	closed    chan struct{}  // once the history is over
	busy      sync.WaitGroup // goroutines of clients
	plan      *plan
	server    *server
	newMember func(*world, *process) member
	processes []*process
	operator  *process      // of whoever changes limits: it has no callers
	meters    []*meter      // one for each limit and key that was used
	calls     map[int]*call // that wait, or hold slots
	waiting   []*call       // in the order in which they came
	ended     [lost + 1]int
	strikes   map[*event]int // how often each event has struck

	overtakes  int  // calls that overtook another
	resting    bool // callers are done
	over       bool // all is judged
	violations []violation
	notes      []string // what happened, if it is to be told
	telling    bool
}

// violation is a law that was broken.
type violation struct {
	law, text string
	at        time.Duration
}

func (v violation) String() string { return fmt.Sprintf("law %s, at %v: %s", v.law, v.at, v.text) }

// newWorld prepares a history.
func newWorld(p *plan, newMember func(*world, *process) member) *world {
	w := &world{plan: p, newMember: newMember, calls: map[int]*call{}, began: time.Now(), closed: make(chan struct{}), strikes: map[*event]int{}}
	w.sooner = make(chan struct{}, 1)
	w.server = newServer(&w.schedule)
	w.server.epoch = time.Duration(w.began.UnixNano())
	w.server.ran = w.ran
	for range p.processes {
		w.start(len(w.processes))
	}
	for i := range p.events {
		w.happen(&p.events[i])
	}
	for _, process := range w.processes {
		w.join(process, p.until)
	}
	w.operator = w.start(0)
	w.operator.events = nil
	w.tick()
	return w
}

// tick lets the laws look at the world from time to time.
func (w *world) tick() {
	w.advance()
	w.after(50*time.Millisecond, w.tick)
}

// done reports whether callers are done, and nothing waits any more.
func (w *world) done() bool { return w.now >= max(w.plan.until, w.plan.calm()) && len(w.calls) == 0 }

// rest lets some time pass when callers are done, and looks at what is left then.
func (w *world) rest() {
	const tidies = 3 * time.Second
	w.resting = true
	w.after(tidies, func() {
		w.judgeClean()
		w.operator.states(func(all []reserve.State, err error) {
			w.judgeStates(all, err)
			w.over = true
		})
	})
}

// note writes down what happens.
func (w *world) note(format string, args ...any) {
	if w.telling {
		w.notes = append(w.notes, fmt.Sprintf("%-12v ", w.now)+fmt.Sprintf(format, args...))
	}
}

// violate notes that a law was broken.
func (w *world) violate(law, format string, args ...any) {
	v := violation{law, fmt.Sprintf(format, args...), w.now}
	if len(w.violations) < 100 {
		w.violations = append(w.violations, v)
	}
	w.note("VIOLATION %v", v)
}
