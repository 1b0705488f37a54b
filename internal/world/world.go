package world

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/reserve"
)

// world is a history that is played.
type world struct {
	schedule
	began     time.Time
	errands   []func() // functions that end the remaining errands
	plan      *plan
	server    *server
	processes []*process
	operator  *process // the process of an operator who changes limits; it has no callers
	meters    []*meter // one for each limit and key that was used
	byPart    map[part]*meter
	byState   map[string]*meter          // by the keys of their states
	most      int                        // the number of turns and bookings after which callers make no more calls
	calls     map[int]*call              // calls that wait, or hold slots
	waiting   []*call                    // waiting calls in the order in which they came
	places    map[string][]time.Duration // when the places of each line were taken
	ended     [lost + 1]int
	strikes   map[*event]int           // how often each event has struck
	versions  int64                    // of plans …
	plans     map[int64]reserve.Limit  // … and their limits
	asked     map[string]time.Duration // when a script last wrote the state with a key
	turns     []turn                   // recorded if a transcript has bounds

	overtakes  int           // calls that overtook another
	promised   time.Duration // the last moment at which a caller comes back for a booking
	resting    bool          // all callers are done
	over       bool          // all laws are judged
	violations []violation
	notes      []string // what happened, if it is recorded
	telling    bool
	brief      bool // it ends at the first violation
	rash       bool // processes of the next protocol do not wait until all speak it: a mistake
}

// violation is a law that was broken.
type violation struct {
	law, text string
	at        time.Duration
}

func (v violation) String() string { return fmt.Sprintf("law %s, at %v: %s", v.law, v.at, v.text) }

// newWorld prepares a history.
func newWorld(p *plan) *world {
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{plan: p, calls: map[int]*call{}, byPart: map[part]*meter{}, byState: map[string]*meter{}, most: most, places: map[string][]time.Duration{}, began: midnight.Add(p.clock), strikes: map[*event]int{}, plans: map[int64]reserve.Limit{}, asked: map[string]time.Duration{}}
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
	newest := slices.IndexFunc(p.processes, func(q processPlan) bool { return q.version != earlier })
	w.operator = w.start(max(0, newest))
	w.operator.events = nil
	w.tick()
	return w
}

// play plays a history. A mistake may be planted in its scripts.
func play(p *plan, telling bool, wrong func(string) string) *world {
	w := newWorld(p)
	w.telling = telling
	w.server.wrong = wrong
	w.playOn()
	return w
}

// playOn plays the history to its end.
func (w *world) playOn() {
	for !w.over && !w.stuck() && !w.standsStill() && !(w.brief && len(w.violations) > 0) {
		if w.done() && !w.resting {
			w.rest()
		}
		w.schedule.play()
	}
	w.judge()
	for _, end := range w.errands {
		end()
	}
	w.server.Close()
}

// tick judges the world from time to time.
func (w *world) tick() {
	w.advance()
	w.judgeStops()
	w.after(50*time.Millisecond, w.tick)
}

// done reports whether all callers are done, and no call waits.
func (w *world) done() bool { return w.now >= w.ends() && len(w.calls) == 0 }

// ends returns when no more calls come, and all events are over.
func (w *world) ends() time.Duration { return max(w.plan.until, w.plan.calm(), w.promised) }

// rest lets some time pass after the callers are done, and judges what is left.
func (w *world) rest() {
	const tidies = 3 * time.Second
	w.resting = true
	w.after(tidies, func() {
		w.judgeClean()
		w.operator.states(func(all []wire.State, err error) {
			w.judgeStates(all, err)
			w.over = true
		})
	})
}

// note records what happens.
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

// schedule is the time of a world, and its planned actions. Actions at one moment happen in the order in
// which they were planned.
type schedule struct {
	now   time.Duration // since the world began
	tasks tasks
	count int
	still int // how many actions were run at this moment
}

type task struct {
	at   time.Duration
	n    int
	what func()
}

type tasks []*task

func (e tasks) Len() int { return len(e) }
func (e tasks) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e tasks) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *tasks) Push(x any)   { *e = append(*e, x.(*task)) }
func (e *tasks) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return last
}

// after plans an action.
func (s *schedule) after(d time.Duration, what func()) { s.at(s.now+max(0, d), what) }

func (s *schedule) at(at time.Duration, what func()) {
	s.count++
	heap.Push(&s.tasks, &task{max(at, s.now), s.count, what})
}

// play runs the next action.
func (s *schedule) play() {
	next := heap.Pop(&s.tasks).(*task)
	if next.at > s.now {
		s.still = 0
	}
	s.still++
	s.now = next.at
	next.what()
}
