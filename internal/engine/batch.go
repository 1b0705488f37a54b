package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// Script is the call that a Batch makes.
type Script int

// The calls that a Batch makes.
const (
	Ask      Script = iota
	Leave           // It has Left.
	Beat            // It has a Heartbeat.
	Settle          // It has Used.
	Inspect         // Only the way there and back is of interest.
	Register        // It writes Names into the index, and is no script.
	Holders         // It reads the calls that hold slots from Logs, and is no script.
)

// Batch is one command of Redis, and what it is for.
type Batch struct {
	Script    Script
	Call      wire.Call // for all scripts but Beat
	Items     []wire.Item
	Left      []wire.Left
	Used      []wire.Used
	Heartbeat wire.Heartbeat
	Names     []*wire.Name
	Logs      []string
	process   string // The process whose slots are looked up.
	known     int64  // The time of Redis at which its content was known; 0: when it is sent.

	// These fields are for a batch of Ask. It first returns what its lines leave, with a call of its own.
	caller   wire.Caller
	index    map[string]int
	limits   []*wire.Limit
	result   Result // of the last attempt
	slots    bool   // One of the limits has slots.
	back     []string
	asks     []asked // one per item
	parts    []wire.Part
	left     []*line       // The lines that return places and turns with it.
	ended    []endedTurn   // Turns that no longer hold their slots, and places that are left.
	goes     []goingTurn   // Turns that are returned, if others have not spent since.
	ranks    []int64       // The ranks of the names of a heartbeat, before it was sent.
	calls    int           // The number of calls that ask with it.
	leastWay time.Duration // The way from Redis that it allows for at the least.

	tries  int
	driven bool // A driver has it.
	kept   bool // Its answers are kept: see kinds.go.
	over   bool // Its calls have their answers. The driver frees it.
	sure   bool // The engine has made sure that the process counts as alive.
	alarm  alarm

	// answered is called when Redis has answered, and failed when the batch has failed for good. Where they are
	// nil, Reply and Failed handle the outcome themselves.
	answered func(now time.Time, r *Result)
	failed   func(now time.Time, err error)
}

// Result is the answer of Redis to a Batch.
type Result struct {
	Reply         wire.Reply     // for all scripts but Beat
	Answers       []wire.Answers // for Ask
	Counts        []int64        // for Leave
	Pulse         wire.Pulse     // for Beat
	Held          []wire.HeldBy  // for Holders
	Sent, Arrived time.Time
}

// asked is what a line asks for with one item.
type asked struct {
	line  *line
	place *place // nil: it asks for new calls
	lease *lease // It asks for permits ahead of calls. Nil: it asks for calls.
}

// endedTurn is a turn of line.done, with its line.
type endedTurn struct {
	line *line
	turn *Turn
}

// goingTurn is a turn that an item of Batch.Left returns.
type goingTurn struct {
	endedTurn
	item int
}

const (
	// A batch is bounded by the time that its script takes in Redis, in micros: no script may take a
	// millisecond.
	mostWork    = 900
	workOfQueue = 60 // a limit where calls wait, or may have to wait …
	workOfCall  = 18 // … and each of these calls, or each item that it leaves
	// A call of several limits, with these limits. If more calls ask at once, more of them wait at a limit that
	// does not delay them.
	workOfJoint = 75
	workOfLimit = 10   // a limit where no call waits
	mostCalls   = 1024 // more calls take so long to hand over that turns are late where processors are busy

	// distant is how long the fastest round trip has to be for batches to overlap. Up to mostBatches are under
	// way then, and the next one starts when it has its part of the calls. On faster trips, a second batch
	// starts when crowd lines have something to ask for.
	distant     = 2 * time.Millisecond
	mostBatches = 16
	crowd       = 50
)

// traffic is the batches that are under way, or about to be.
type traffic struct {
	busy      int            // The number of batches of Ask that are under way.
	calls     int            // The number of calls that they ask for.
	kept      []*keptAnswers // Batches whose answers are kept.
	sent      int            // The number of batches of any kind that are with Redis.
	outbox    []*Batch       // The batches that are to be sent.
	gate      *Batch         // It has to be answered before the outbox is sent. Nil: nothing has to be.
	unmet     bool           // A batch has failed: another server may answer the next one.
	returning map[string]int // By key: the number of batches that are returning places and turns.
	behind    []*line        // The lines that ask when those batches are back.
	recycled  []*Batch       // Empty batches, for another use.
}

// batch returns an empty batch.
func (e *Engine) batch(s Script) *Batch {
	var b *Batch
	if n := len(e.recycled); n > 0 {
		b, e.recycled = e.recycled[n-1], e.recycled[:n-1]
	} else {
		b = &Batch{index: map[string]int{}}
	}
	b.Script = s
	b.alarm.of = b
	return b
}

// recycle empties a batch for another use.
func (e *Engine) recycle(b *Batch) {
	clear(b.limits)
	clear(b.index)
	clear(b.Items)
	clear(b.asks)
	clear(b.left)
	clear(b.ended)
	clear(b.goes)
	*b = Batch{Call: wire.Call{Buffer: b.Call.Buffer}, index: b.index, limits: b.limits[:0], back: b.back[:0], Items: b.Items[:0], parts: b.parts[:0], asks: b.asks[:0],
		Left: b.Left[:0], left: b.left[:0], ended: b.ended[:0], goes: b.goes[:0]}
	e.recycled = append(e.recycled, b)
}

// caller returns what a batch says about this process.
func (e *Engine) caller(t *times) wire.Caller {
	e.serial++
	return wire.Caller{
		Process: e.cfg.Process, Run: e.run, Channel: e.cfg.Channel, Serial: e.serial,
		Way: t.way, Horizon: t.horizon, Near: t.ahead, Grace: t.grace, Lost: e.lost,
	}
}

// overlaps reports whether Redis is so far away that batches overlap. A trip or two say nothing, because they
// connect and send the scripts.
func (e *Engine) overlaps(t *times) bool {
	return t.trips >= alike && t.fastest >= distant
}

// mayAsk reports whether another batch may ask now.
func (e *Engine) mayAsk(t *times) bool {
	switch {
	case e.queue.len() == 0 || e.down():
		return false
	case e.busy == 0:
		return true
	case e.overlaps(t):
		return e.busy < mostBatches && e.queue.calls()*mostBatches >= e.calls
	default:
		return e.busy == 1 && e.queue.len() >= crowd
	}
}

// load makes a batch of what the lines have to ask for, if a batch may be sent now. It reports whether it made
// one.
func (e *Engine) load(now time.Time, t *times) bool {
	if !e.mayAsk(t) {
		return false
	}
	b, work := e.batch(Ask), 0
	var more []*line
	if e.queue.len() > 1 {
		e.queue.sort()
	}
	for work < mostWork {
		l := e.queue.pull()
		if l == nil {
			l = e.shares(now, t)
		}
		if l == nil {
			break
		}
		if l.returning > 0 { // a new ask would queue behind the places that it is returning
			continue
		}
		if l.need.Now && !l.followed && e.isReturning(l) {
			e.behind = append(e.behind, l)
			continue
		}
		l.followed = false
		if e.strange {
			e.refuseOtherKind(l)
		}
		if len(l.unused)+len(l.done)+len(l.places) > 0 {
			queues := b.workOfLimits(l.parts)
			if n := e.takeLeft(b, l, now); n > 0 {
				work += queues + n*workOfCall
			}
		}
		if e.takeCalls(b, l, t, now, &work) {
			more = append(more, l)
		} else {
			l.touch()
		}
	}
	for _, l := range more {
		e.queue.add(l)
	}
	if len(b.Items)+len(b.Left) == 0 {
		e.recycle(b)
		return false
	}
	if e.known && now.Sub(e.answered) >= e.cfg.Dead { // the process may count as dead
		e.unmet = true
	}
	b.caller = e.caller(t)
	b.caller.Way = min(max(b.caller.Way, b.leastWay), farthest-leastHorizon)
	b.caller.Horizon = min(b.caller.Horizon, farthest-b.caller.Way)
	e.busy++
	e.calls += b.calls
	if len(b.Left) > 0 {
		for _, left := range b.Left {
			e.traffic.returning[b.limits[left.Limit].Keys[0]]++
		}
		caller := b.caller
		e.serial++
		caller.Serial = e.serial
		b.becomes(Leave, caller, nil)
	} else {
		b.becomes(Ask, b.caller, b.back)
	}
	e.outbox = append(e.outbox, b)
	return true
}

// shares returns a line that asks soon, and may as well ask with a batch that goes to Redis now.
func (e *Engine) shares(now time.Time, t *times) *line {
	if len(e.alarms) == 0 {
		return nil
	}
	l, ok := e.alarms[0].of.(*line)
	if !ok || l.alarm.at.Sub(now) > t.share || len(l.needed()) == 0 || !l.mayShare(l.places[0], now, t) {
		return nil
	}
	e.alarms.clear(&l.alarm)
	return l
}

// becomes prepares the call that the batch makes next.
func (b *Batch) becomes(s Script, caller wire.Caller, back []string) {
	b.Script, b.Call = s, wire.Call{Caller: caller, Limits: b.limits, Back: back, Buffer: b.Call.Buffer}
}

// at returns the index of a limit in the batch. It adds the limit if the batch does not have it.
func (b *Batch) at(l *wire.Limit) int {
	i, ok := b.index[l.Keys[0]]
	if !ok {
		i = len(b.limits)
		b.index[l.Keys[0]] = i
		b.limits = append(b.limits, l)
		b.back = append(b.back, "")
		b.slots = b.slots || l.HasSlots()
	}
	return i
}

// workOfLimits returns the work for limits at which calls wait, without the work for the calls. A limit that
// the batch has already costs no more work.
func (b *Batch) workOfLimits(parts []Part) (work int) {
	for _, part := range parts {
		if _, in := b.index[part.Limit.Keys[0]]; !in {
			work += workOfQueue
		}
	}
	return work
}

// add adds an item for what a line asks for.
func (b *Batch) add(l *line, item wire.Item, p *place) {
	item.Settles, item.Now, item.Flow = l.need.Settles, l.need.Now, l.need.Flow
	if l.need.ID != "" {
		item.ID = &wire.ID{Text: l.need.ID, Patience: l.need.Patience}
		if p != nil { // it keeps its place
			item.ID.Patience = forever
		}
	}
	first := len(b.parts)
	for i, part := range l.parts {
		of := wire.Part{Limit: b.at(part.Limit), Cost: part.Cost}
		if p != nil {
			of.Tag = p.tags[i]
			b.takesBack(of.Limit, p.back)
		}
		if l.back != nil {
			b.takesBack(of.Limit, l.back[i])
		}
		b.parts = append(b.parts, of)
	}
	l.back = nil
	item.Parts = b.parts[first:len(b.parts):len(b.parts)]
	b.Items = append(b.Items, item)
	b.asks = append(b.asks, asked{line: l, place: p})
}

// takesBack lets Redis take back, at a limit, the turns of an ask, if it is not empty.
func (b *Batch) takesBack(limit int, ask string) {
	if ask == "" {
		return
	}
	b.back[limit] = joined(b.back[limit] + ";" + ask)
}

// takesBack lets Redis take back, with the next ask of the line, the turns of a batch that has failed for good. At one
// limit an ask may have turns in use of which none was used at another one.
func (l *line) takesBack(b *Batch, item *wire.Item) {
	if l.back == nil {
		l.back = make([]string, len(l.parts))
	}
	for i, p := range item.Parts {
		l.back[i] = joined(l.back[i] + ";" + b.back[p.Limit] + ";" + b.caller.Ask())
	}
}

// joined returns asks without empty ones, and each of them once.
func joined(asks string) string {
	var all []string
	for _, ask := range strings.FieldsFunc(asks, func(r rune) bool { return r == ';' }) {
		if !slices.Contains(all, ask) {
			all = append(all, ask)
		}
	}
	return strings.Join(all, ";")
}

// again prepares a batch for asking once more, because its reply was lost. Redis takes back what the first
// attempt was given. The time at which it was sent becomes the tag of its new calls, so that later calls queue
// behind them. A call with an ID may be booked: then it has the tag of its booking.
func (b *Batch) again(sent int64) {
	for j := range b.back {
		b.takesBack(j, b.caller.Ask())
	}
	for _, item := range b.Items {
		for i, p := range item.Parts {
			if p.Tag == 0 && item.Ahead == 0 && item.ID == nil {
				item.Parts[i].Tag = sent
			}
		}
	}
}
