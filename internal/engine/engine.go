package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Config is the settings of an Engine. All fields are required, except Channel, Protocol and Brisk.
type Config struct {
	Process string        // The name of this process, unique in the fleet, without spaces and colons.
	Channel string        // The channel on which Redis publishes news of the limits. Empty: there is no news.
	Dead    time.Duration // A process that is silent for this long counts as dead.

	Away     Away          // Says what calls do while Redis is unreachable.
	Failures int           // Redis counts as unreachable after this many failures in a row.
	Probe    time.Duration // The average time between two attempts to reach an unreachable Redis.
	// Share returns the part of a limit that this process uses while Redis is unreachable.
	Share func(l *wire.Limit) (perSecond float64, burst int)

	// Protocol is the protocol that the scripts speak. Zero: wire.Protocol. Tests play a later one.
	Protocol int

	Self   wire.Report    // The fields that are the same in all reports of this process.
	Random func() float64 // Returns a random number from 0 to 1, for jitter.
	Errors Errors

	Brisk Brisk // Zero: usualBrisk.
}

// Errors are the errors with which calls fail.
type Errors struct {
	Closed    error
	Cancelled error // For a call that was cancelled.
	Away      error // For a call during an outage, under AwayFail.
	// Kind builds the error for a call whose limit is of another kind than the limit in force under its name. It
	// does the same if processes of another protocol use the name, and this process cannot work beside them.
	Kind func(name *wire.Name, inForce *wire.Ruling) error
	// Missed builds the error for a call whose turn would come after its deadline. slowest is the index of the
	// limit that delays the call most. -1: it is not known.
	Missed func(turn, deadline time.Time, slowest int) error
	// Full builds the error for a call that must not wait, because too many calls wait at the limit. turn is a
	// forecast of the turn that it would have had.
	Full func(limit *wire.Limit, turn time.Time) error
	// Stopped builds the error for a call that a hard stop of the limit ends.
	Stopped func(limit *wire.Limit, s *wire.Stopped) error
}

// Ready is what is to be done now.
type Ready struct {
	Send   []*Batch  // Each is one command of Redis. Its outcome goes to Reply or Failed.
	Wake   []*Call   // These calls have changed: the goroutines that wait for them look at them.
	Tell   []Event   // Events that have happened, for logs and counts.
	Listen bool      // The process has to listen to news.
	Next   time.Time // The latest moment for the next call of Ready. Zero: there is no such moment.
}

// Engine decides what one process does: see the documentation of the package. It is not safe for concurrent
// use. A caller hands moments to its methods in order: no moment is before the one of the preceding call.
type Engine struct {
	cfg    Config
	serial int64 // the serial of the last batch
	number int64 // the number of the last call
	ready  Ready // what the next Ready returns, as far as it is known
	alarms alarms
	closed bool

	lines   map[key]*line
	inUse   []*line // The lines in use, in an order that follows from the events alone.
	touched []*line // The lines that have changed since plan last saw them.
	last    *line   // The line that was looked up last.
	idle    *line   // The line that was forgotten last: a call may need it again at once.
	strange bool    // A name of this process was found to have another kind of limit in force.
	queue   queue

	traffic
	clock   clock
	breaker breaker
	outage  *outage              // nil: there is no outage
	rests   map[string]time.Time // By key: without Redis, no call is made before this moment, because of a pause.

	heart
	news
	refusals
	slotKeeper
	leaser
}

// New returns an engine that has nothing to do.
func New(cfg Config) *Engine {
	cfg.Brisk, cfg.Protocol = cmp.Or(cfg.Brisk, usualBrisk), cmp.Or(cfg.Protocol, wire.Protocol)
	cfg.Self.Protocol = cfg.Protocol
	e := &Engine{cfg: cfg, lines: map[key]*line{}, rests: map[string]time.Time{}}
	e.breaker = breaker{failures: cfg.Failures, probe: cfg.Probe, interval: time.Duration((0.5 + cfg.Random()) * float64(cfg.Probe)), tell: e.tell}
	e.traffic.returning = map[string]int{}
	e.heart = heart{names: map[*wire.Name]*nameUse{}, spoken: cfg.Protocol}
	e.heart.alarm.of = duty((*Engine).beat)
	e.news = news{moves: map[string]*move{}, moving: map[string]int{}, looks: map[*wire.Limit]time.Time{}, vain: map[*wire.Limit]bool{}}
	e.heart.replan.of = duty((*Engine).askForPlans)
	e.news.glance.of, e.news.look.of = duty((*Engine).glanceNow), duty((*Engine).lookNow)
	e.slotKeeper = slotKeeper{holders: map[*Call]bool{}, audits: map[string]*audit{}}
	e.leaser = leaser{leases: map[*wire.Limit]*lease{}, past: map[*wire.Name]*LeaseStats{}}
	return e
}

// Ready returns in r what is to be done now, and forgets it. r has to be empty. The engine uses the memory of
// its slices later.
func (e *Engine) Ready(now time.Time, r *Ready) {
	t := e.clock.times(now)
	for again := true; again; {
		e.alarms.ring(e, now)
		for i := 0; i < len(e.touched); i++ { // the loop may add lines
			e.plan(e.touched[i], now, t)
		}
		clear(e.touched)
		e.touched = e.touched[:0]
		again = e.load(now, t)
		e.sendGone(now)
		e.dispatch(now)
		again = again || len(e.touched) > 0
	}
	e.ready.Listen, e.ready.Next = e.needsNews(now), e.alarms.next()
	*r, e.ready = e.ready, Ready{Send: r.Send[:0], Wake: r.Wake[:0], Tell: r.Tell[:0]}
}

// Woken returns in r the calls to wake and the events to tell, and leaves all else for Ready. r has to be
// empty. Calls that have their answers can then join again in time to share the next batch.
func (e *Engine) Woken(r *Ready) {
	r.Wake, e.ready.Wake = e.ready.Wake, r.Wake[:0]
	r.Tell, e.ready.Tell = e.ready.Tell, r.Tell[:0]
}

// Gathers reports whether calls that come now should wait in the inbox, because a batch is under way.
func (e *Engine) Gathers(now time.Time) bool { return e.busy > 0 && !e.overlaps(e.clock.times(now)) }

// Gathered is the number of calls in the lines that may ask with the next batch.
func (e *Engine) Gathered() (n int) {
	n = e.queue.calls()
	for _, l := range e.touched {
		if !l.queued {
			n += len(l.waiting)
		}
	}
	return n
}

// plan queues a line that has something to ask for now, sets its alarm for later, or forgets the line.
func (e *Engine) plan(l *line, now time.Time, t *times) {
	l.touched = false
	if l.came {
		l.came = false
		for _, p := range l.parts {
			e.useLimit(p.Limit, now)
		}
	}
	if len(l.waiting) > 0 && e.replan.index == 0 && slices.ContainsFunc(l.parts, func(p Part) bool { return p.Limit.Plans }) {
		e.replanAfter(now)
	}
	if e.down() {
		e.serve(l, now)
	}
	if of := e.leases[l.need.Limit]; of != nil && len(l.waiting) == 0 {
		of.passed(l)
	}
	switch {
	case l.idle():
		if ends := l.keeps(now); !ends.IsZero() {
			e.alarms.set(&l.alarm, ends)
			return
		}
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

// is reports whether the line is in use and has this need. It reports false for a need with several limits or
// an ID: lineOf looks such needs up.
func (l *line) is(n *Need) bool {
	return l.listed && l.need.Part == n.Part && len(n.More) == 0 && n.ID == "" && len(l.parts) == 1 && l.need.ID == "" &&
		l.need.Settles == n.Settles && l.need.Now == n.Now && l.need.Stays == n.Stays && l.need.Flow == n.Flow
}

// lineOf returns the line of a need, and makes one if the need has no line yet.
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

// list adds a line to the lines in use.
func (e *Engine) list(l *line) {
	if !l.listed {
		e.lines[l.key], l.listed, l.index = l, true, len(e.inUse)
		e.inUse = append(e.inUse, l)
	}
}

// forget removes a line that has nothing to do from the lines in use.
func (e *Engine) forget(l *line) {
	if l.queued || !l.listed {
		return
	}
	last := e.inUse[len(e.inUse)-1]
	e.inUse[l.index], last.index = last, l.index
	e.inUse[len(e.inUse)-1] = nil
	e.inUse = e.inUse[:len(e.inUse)-1]
	delete(e.lines, l.key)
	l.unused = nil // a pause, or a change of the limit, would not find these turns
	l.listed = false
	e.idle = l
}

// queue is the lines that ask next. Lines with waiting calls ask before lines that have only new calls. So
// waiting calls get their turns in time, however many new calls come whose deadlines are too short.
type queue struct{ waiting, fresh []*line }

func (q *queue) add(l *line) {
	l.queued = true
	if len(l.places) > 0 {
		q.waiting = append(q.waiting, l)
	} else {
		q.fresh = append(q.fresh, l)
	}
}

// sort moves lines whose calls have come to wait meanwhile to the lines with waiting calls. The oldest place asks
// first, so calls that get new tags keep their order.
func (q *queue) sort() {
	q.fresh = slices.DeleteFunc(q.fresh, func(l *line) bool {
		waits := len(l.places) > 0
		if waits {
			q.waiting = append(q.waiting, l)
		}
		return waits
	})
	slices.SortStableFunc(q.waiting, func(a, b *line) int { return a.since().Compare(b.since()) })
}

// since returns when the first place of the line was taken.
func (l *line) since() (since time.Time) {
	if len(l.places) > 0 {
		since = l.places[0].since
	}
	return since
}

func (q *queue) len() int { return len(q.waiting) + len(q.fresh) }

// pull removes and returns the line that asks next. It returns nil if the queue is empty.
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

// calls is the number of calls that wait in the lines.
func (q *queue) calls() (n int) {
	for _, l := range q.waiting {
		n += len(l.waiting)
	}
	for _, l := range q.fresh {
		n += len(l.waiting)
	}
	return n
}

// Below is what the caller of an Engine needs besides the events: the state of a call, and script calls
// that serve one caller alone.

// View returns the state of a call.
func (e *Engine) View(c *Call) View {
	c.look()
	v := View{State: c.state, Due: c.due, Slowest: c.slowest, Turn: c.turn}
	if e.holders[c] {
		v.Lost = c.slots.lost
	}
	return v
}

// Tries prepares a script call that serves one caller. It returns an error if the breaker lets no attempt
// through.
func (e *Engine) Tries(now time.Time, c *wire.Call) error {
	if !e.breaker.pass(now) {
		return e.breaker.shut()
	}
	c.Caller, c.Now, c.Clock, c.Unstepped = e.caller(e.clock.times(now)), now, e.clock.redis(now), e.clock.unstepped(now)
	return nil
}

// Tried handles the outcome of such a call, and returns its error. gone says that the caller does not wait for
// the outcome any more.
func (e *Engine) Tried(now time.Time, c *wire.Call, r *wire.Reply, sent, arrived time.Time, err error, gone bool) error {
	if err == nil {
		e.Heard(c, r, sent, arrived)
		err = r.AnyProblem()
	}
	if err != nil && gone {
		e.breaker.abandon()
	} else {
		e.breaker.record(now, err)
	}
	return err
}

// TriesAgain returns the pause before such a call is made again, after an error and this many failures before
// it. over says that it is not made again.
func (e *Engine) TriesAgain(err error, failures int) (pause time.Duration, over bool) {
	return e.backoff(failures), e.breaker.hopeless(err) || e.breaker.isOpen()
}

// Over reports whether the calls of a batch have their answers. Then its driver has to call Free.
func (b *Batch) Over() bool { return b.over }
