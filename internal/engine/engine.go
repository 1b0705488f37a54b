package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Config is what an Engine needs to know. All fields are required, but for Channel and Brisk.
type Config struct {
	Process string        // A name of its own, without spaces and colons.
	Channel string        // For news of the limits. Empty: there is none.
	Dead    time.Duration // A process that is silent for so long is dead.

	Away     Away          // What calls do while Redis is away.
	Failures int           // After so many in a row Redis counts as away.
	Probe    time.Duration // Between two attempts to reach it then, on average.
	// Share is the part of a limit that this process uses without Redis.
	Share func(l *wire.Limit) (perSecond float64, burst int)

	Self   wire.Report    // What is the same in all reports.
	Random func() float64 // From 0 to 1, for jitter.
	Errors Errors

	Brisk Brisk // Zero: a default.
}

// Errors are what calls are told.
type Errors struct {
	Closed    error
	Cancelled error // Of a call that was cancelled.
	Away      error // Under AwayFail.
	// Kind builds the error for a limit under whose name another kind is in force, with that text.
	Kind func(name *wire.Name, inForce string) error
	// Missed builds the error for a call whose turn would come after its deadline. Slowest is the index
	// of the limit that holds it back most; -1: that is not known.
	Missed func(turn, deadline time.Time, slowest int) error
	// Full builds the error for a call that must not wait at a limit, as too many calls do. Its turn would
	// come at a moment.
	Full func(limit *wire.Limit, turn time.Time) error
}

// Ready is what is to be done now.
type Ready struct {
	Send   []*Batch  // Each is one command of Redis. Its outcome is for Reply or Failed.
	Wake   []*Call   // Whoever waits for these is to look at them.
	Tell   []Event   // What has happened, for logs and counts.
	Listen bool      // The process is to hear news.
	Next   time.Time // When Ready is to be called again, at the latest. Zero: there is no such moment.
}

// Engine is what one process does: see the page of the package. It is not safe for concurrent use. A
// moment that is handed to a method is not before the one that was handed to the method before.
type Engine struct {
	cfg    Config
	serial int64 // of the last batch
	number int64 // of the last call
	ready  Ready // what is to be done, so far
	alarms alarms
	closed bool

	lines   map[key]*line
	inUse   []*line // The lines, in an order that follows from the events alone.
	touched []*line // They have changed since they were planned.
	last    *line   // The last one that a call joined.
	idle    *line   // The last one that was forgotten: it may be needed at once.
	strange bool    // A name of this process was found to have another kind of limit in force.
	queue   queue

	traffic
	clock   clock
	breaker breaker
	outage  *outage              // nil: Redis is there
	rests   map[string]time.Time // By key: until when the limit rests without Redis, as a pause did not reach it.

	heart
	news
	late
	slotKeeper
	leaser
}

// New returns an engine that has nothing to do.
func New(cfg Config) *Engine {
	cfg.Brisk = cmp.Or(cfg.Brisk, usualBrisk)
	e := &Engine{cfg: cfg, lines: map[key]*line{}, rests: map[string]time.Time{}}
	e.breaker = breaker{failures: cfg.Failures, probe: cfg.Probe, interval: time.Duration((0.5 + cfg.Random()) * float64(cfg.Probe)), tell: e.tell}
	e.traffic.returning = map[string]int{}
	e.heart = heart{names: map[*wire.Name]*nameUse{}}
	e.heart.alarm.of = duty((*Engine).beat)
	e.news = news{moves: map[string]*move{}, moving: map[string]int{}, looks: map[*wire.Limit]time.Time{}}
	e.news.glance.of, e.news.look.of = duty((*Engine).glanceNow), duty((*Engine).lookNow)
	e.slotKeeper = slotKeeper{holders: map[*Call]bool{}, audits: map[string]*audit{}}
	e.leaser = leaser{leases: map[*wire.Limit]*lease{}, past: map[*wire.Name]*LeaseStats{}}
	return e
}

// Ready returns what is to be done now, and forgets it. r is to be empty; the engine uses its room later.
func (e *Engine) Ready(now time.Time, r *Ready) {
	t := e.clock.times(now)
	for again := true; again; {
		e.alarms.ring(e, now)
		for i := 0; i < len(e.touched); i++ { // a line may touch itself meanwhile
			e.plan(e.touched[i], now, t)
		}
		clear(e.touched)
		e.touched = e.touched[:0]
		again = e.load(now, t)
		e.dispatch(now)
		again = again || len(e.touched) > 0
	}
	e.ready.Listen, e.ready.Next = e.needsNews(now), e.alarms.next()
	*r, e.ready = e.ready, Ready{Send: r.Send[:0], Wake: r.Wake[:0], Tell: r.Tell[:0]}
}

// Woken returns whom to wake and what to tell, and leaves all else for Ready (r is to be empty): calls that have their
// answers may join again in time to share the next batch.
func (e *Engine) Woken(r *Ready) {
	r.Wake, e.ready.Wake = e.ready.Wake, r.Wake[:0]
	r.Tell, e.ready.Tell = e.ready.Tell, r.Tell[:0]
}

// Gathers reports whether calls that come now had better wait together, as a batch is under way.
func (e *Engine) Gathers(now time.Time) bool { return e.busy > 0 && !e.overlaps(e.clock.times(now)) }

// Gathered is how many calls wait to be asked for with the next batch.
func (e *Engine) Gathered() (n int) {
	n = e.queue.calls()
	for _, l := range e.touched {
		if !l.queued {
			n += len(l.waiting)
		}
	}
	return n
}

// plan says when a line asks, or forgets it.
func (e *Engine) plan(l *line, now time.Time, t *times) {
	l.touched = false
	if l.came {
		l.came = false
		for _, p := range l.parts {
			e.useLimit(p.Limit, now)
		}
	}
	if e.down() {
		e.serve(l, now)
	}
	if of := e.leases[l.need.Limit]; of != nil && len(l.waiting) == 0 {
		of.open(true)
	}
	switch {
	case l.idle():
		e.alarms.clear(&l.alarm)
		e.forget(l)
		return
	case e.down(), l.queued:
		return
	}
	when, ok := time.Time{}, true
	if fresh := len(l.waiting) - len(l.places) - l.asked; fresh <= 0 || !l.gathers.IsZero() {
		if len(l.places)+len(l.unused)+len(l.done) == 0 && fresh <= 0 {
			ok = false
		} else {
			when, ok = l.due(t)
		}
	}
	if ok && when.After(now) {
		e.alarms.set(&l.alarm, when)
		return
	}
	if e.alarms.clear(&l.alarm); ok {
		e.queue.add(l)
	}
}

// is reports whether a need is that of the line, which is in use; false of one with other limits or an ID,
// which are looked up.
func (l *line) is(n *Need) bool {
	return l.listed && l.need.Part == n.Part && len(n.More) == 0 && n.ID == "" && len(l.parts) == 1 && l.need.ID == "" &&
		l.need.Settles == n.Settles && l.need.Now == n.Now && l.need.Flow == n.Flow
}

// lineOf returns the line of a need.
func (e *Engine) lineOf(n *Need) *line {
	if n.ID != "" && n.number == 0 {
		e.number++
		n.number = e.number
	}
	key := n.key()
	l := e.lines[key]
	switch {
	case l != nil:
	case e.idle != nil && e.idle.key == key:
		l, e.idle = e.idle, nil
	default:
		l = &line{engine: e, key: key, need: *n}
		l.parts = append(append(l.one[:0], n.Part), n.More...)
		l.alarm.of = l
		if n.hasSlots() {
			for _, p := range l.parts {
				l.slots = append(l.slots, p.Limit.HasSlots())
			}
		}
	}
	e.last = l
	e.list(l)
	return l
}

// list notes that a line is in use.
func (e *Engine) list(l *line) {
	if !l.listed {
		e.lines[l.key], l.listed, l.index = l, true, len(e.inUse)
		e.inUse = append(e.inUse, l)
	}
}

// forget forgets a line that has nothing to do.
func (e *Engine) forget(l *line) {
	if l.queued || !l.listed {
		return
	}
	last := e.inUse[len(e.inUse)-1]
	e.inUse[l.index], last.index = last, l.index
	e.inUse[len(e.inUse)-1] = nil
	e.inUse = e.inUse[:len(e.inUse)-1]
	delete(e.lines, l.key)
	l.unused = nil // a pause, or another kind of limit, would not find these turns
	l.listed = false
	e.idle = l
}

// queue is the lines that ask next. Those with calls that wait ask before those whose calls are new:
// however many come and are too late, the turns of the others are given in time.
type queue struct{ waiting, fresh []*line }

func (q *queue) add(l *line) {
	l.queued = true
	if len(l.places) > 0 {
		q.waiting = append(q.waiting, l)
	} else {
		q.fresh = append(q.fresh, l)
	}
}

// sort lets lines whose calls have come to wait meanwhile be among the first.
func (q *queue) sort() {
	q.fresh = slices.DeleteFunc(q.fresh, func(l *line) bool {
		waits := len(l.places) > 0
		if waits {
			q.waiting = append(q.waiting, l)
		}
		return waits
	})
}

func (q *queue) len() int { return len(q.waiting) + len(q.fresh) }

// pull takes the next line off; nil: there is none.
func (q *queue) pull() (l *line) {
	from := &q.waiting
	if len(*from) == 0 {
		from = &q.fresh
	}
	if len(*from) == 0 {
		return nil
	}
	l = behead(from)
	l.queued = false
	return l
}

// calls is how many calls wait in the lines.
func (q *queue) calls() (n int) {
	for _, l := range q.waiting {
		n += len(l.waiting)
	}
	for _, l := range q.fresh {
		n += len(l.waiting)
	}
	return n
}
