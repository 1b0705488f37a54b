package world

import (
	"fmt"
	"sync"
	"time"
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
	ended     [lost + 1]int
	strikes   map[*event]int // how often each event has struck

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

// over reports whether the history is: callers are done, and nothing waits any more.
func (w *world) over() bool { return w.now >= w.plan.until && len(w.calls) == 0 }

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
