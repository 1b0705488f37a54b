// Package model is the line of one limit in plain Go: the same rules that the
// scripts of package lua follow, written from their documentation, so that each
// can be checked against the other. It does no I/O and knows no clock: every
// method is told the time. Clarity comes before speed.
package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// LongestMicros is the longest line, and the longest time to fill a bucket: 100
// years of 365.25 days.
const LongestMicros = 100 * 365.25 * 86400 * 1e6

const (
	most        = 1<<53 - 1 // the largest count of permits
	stepMicros  = 1e6       // a clock that goes ahead by more was stepped
	aliveMicros = 60e6      // a process counts for so long after its last call
	countMicros = 10e6      // between two counts of the processes
)

// Limit is what a caller wants to be held to.
type Limit struct {
	IntervalMicros float64 // micros per permit, at least 1
	Burst          int64   // permits that an idle bucket holds, at least 1
}

// Caller is what a process remembers of the line, and who it is. Moments are on
// the clock of the line. A process may be several callers: "name", "name/1" …
type Caller struct {
	ReachMicros float64 // when the last ticket that it knows to be final is due, from now
	LaterMicros float64 // by how much later others may have some
	Epoch       int64   // of the line when it last saw it; 0: never
	SeenMicros  int64   // when that was
	ClockMicros float64 // what its own clock says that the time is; 0: not known
	Member      string  // empty: neither counted nor remembered
	Serial      int64   // of this call; 0: none
	LastSerial  int64   // of the call that SeenMicros is of; only a quick says it
	Live        int64   // processes, as it was last told; only a quick says it
}

// Nobody remembers nothing.
var Nobody = Caller{ReachMicros: -LongestMicros}

// record is what the line knows of a member.
type record struct {
	seen   int64
	serial int64
	gave   []int64 // to the final tickets of its last call that were not kept, by request; 0: none
	row    bool    // it was a quick, which gave all permits in a row …
	before int64   // … after this one
	bill   bill    // what its last call settled, if that was a charge
}

// Ticket is a number with its cost: it owns the permits (Number-Cost, Number].
// In the waiting list and among the claimed it has an ID; in the free list it
// has none.
type Ticket struct {
	Number int64
	Cost   int64
	ID     string
}

// Line is the state of one limit. The zero value is a line that nobody has used
// yet. It is not safe for concurrent use. Times are micros since any moment, of
// one clock that may be stepped.
type Line struct {
	made  bool
	epoch int64 // when the state was made
	seen  int64 // the time of the last call

	limit        Limit
	anchor       int64 // a permit …
	anchorMicros float64

	tail    int64    // the last permit given out
	final   int64    // the highest number that became final
	floor   int64    // permits up to here can not be used any more
	waiting []Ticket // by number
	free    []Ticket // by number
	claimed []Ticket // final tickets that may be asked for again

	members map[string]record
	live    int64 // of them, when last counted
	counted int64 // when that was
	idle    int64 // permits that nobody used, except those that paid for a charge
	resume  int64 // nothing is due before, after an outage
	pause   int64 // nor before, as the provider said
	paused  int64 // by how much that moved the line
	gen     int64 // how often final tickets were given other turns
	set     Limit // for all, whatever callers work with; no interval: none is
	until   int64 // when it ends; 0: when it is set again

	call call
}

// call is what holds for the call that is being carried out only.
type call struct {
	fresh     bool  // it made the state
	replay    bool  // it was carried out before
	quiet     int64 // micros since the call before it
	epochRead int64 // before the call changed it
	skipped   int64 // permits that overflowed …
	top       int64 // … and the tail after that; 0: none
}

// Lose forgets everything, as when Redis lost its data or the keys expired.
func (l *Line) Lose() { *l = Line{} }

// Clone returns a line that shares nothing with l.
func (l *Line) Clone() *Line {
	c := *l
	c.waiting = slices.Clone(l.waiting)
	c.free = slices.Clone(l.free)
	c.claimed = slices.Clone(l.claimed)
	c.members = maps.Clone(l.members)
	return &c
}

// At returns the line as a call at that time would find it.
func (l *Line) At(now int64, limit Limit) *Line {
	at := l.Clone()
	at.upToNow(now, limit, Nobody)
	return at
}

// Made reports whether there is a state.
func (l *Line) Made() bool { return l.made }

// Epoch is the time at which the state was made.
func (l *Line) Epoch() int64 { return l.epoch }

// Tail is the last permit given out.
func (l *Line) Tail() int64 { return l.tail }

// Final is the highest number that became final.
func (l *Line) Final() int64 { return l.final }

// Floor is the permit up to which none can be used any more.
func (l *Line) Floor() int64 { return l.floor }

// Member is when the line last saw a member, and the serial of its last call.
func (l *Line) Member(name string) (seen, serial int64, known bool) {
	m, known := l.members[name]
	return m.seen, m.serial, known
}

// Members is how many members the line knows.
func (l *Line) Members() int { return len(l.members) }

// Idle is how many permits nobody used.
func (l *Line) Idle() int64 { return l.idle }

// Due is the moment at which permit e is due, in micros.
func (l *Line) Due(e int64) float64 {
	// The conversion keeps the compiler from fusing the two operations, which
	// would round once where Lua rounds twice.
	return l.anchorMicros + float64(float64(e-l.anchor)*l.limit.IntervalMicros)
}

// Live is how many processes use the line.
func (l *Line) Live() int64 { return l.live }

// FullAt is the moment at which the bucket is full, in micros, when nobody
// takes from it any more.
func (l *Line) FullAt() float64 { return l.Due(l.tail) + l.fillMicros() }

// LateAt is the last moment at which a ticket fits in the bucket, in micros. One that costs
// more than a bucket holds which became smaller can be used when it is due.
func (l *Line) LateAt(e, cost int64) float64 {
	return l.Due(e-cost) + float64(float64(max(l.limit.Burst, cost))*l.limit.IntervalMicros)
}

// Waiting returns the tickets that wait and are not dead, by number.
func (l *Line) Waiting() []Ticket {
	return slices.DeleteFunc(slices.Clone(l.waiting), l.Dead)
}

// Free returns the free blocks that still fit, by number.
func (l *Line) Free() []Ticket {
	return slices.DeleteFunc(slices.Clone(l.free), l.Late)
}

// Claimed returns the final tickets that may be asked for again and still fit.
func (l *Line) Claimed() []Ticket {
	return slices.DeleteFunc(slices.Clone(l.claimed), l.Late)
}

// fillMicros is the time that an empty bucket takes to fill.
func (l *Line) fillMicros() float64 {
	return float64(float64(l.limit.Burst) * l.limit.IntervalMicros)
}

// fits reports whether the ticket's permits are still in the bucket.
func (l *Line) fits(t Ticket) bool {
	return t.Number-t.Cost >= l.floor && float64(l.seen) <= l.LateAt(t.Number, t.Cost)
}

// Late reports whether they are not.
func (l *Line) Late(t Ticket) bool { return !l.fits(t) }

// Dead reports whether a ticket that waits can never be used.
func (l *Line) Dead(t Ticket) bool {
	belowFloor := t.Number-t.Cost < l.floor
	return belowFloor || l.Late(t) && t.Number <= l.final
}

// wait is the time until permit e is due: never negative, and rounded up.
func (l *Line) wait(e int64) int64 {
	return max(0, up(l.Due(e)-float64(l.seen)))
}

// reach is when the last final ticket is due, from now; negative when past.
func (l *Line) reach() int64 { return up(l.Due(l.final) - float64(l.seen)) }

func up(micros float64) int64 { return int64(math.Ceil(micros)) }

// next finds the number of a new ticket, without taking it: the first permits
// of the earliest free block that is large enough, else those after the tail.
// Blocks that no longer fit are dropped on the way.
func (l *Line) next(cost int64) (e int64, free bool) {
	l.free = slices.DeleteFunc(l.free, l.Late)
	for _, block := range l.free {
		if size := l.trimmed(block); size >= cost {
			return block.Number - size + cost, true
		}
	}
	return l.tail + cost, false
}

// trimmed is how many permits of a free block are left: of one that is larger than the
// bucket the first overflow, and the rest stays.
func (l *Line) trimmed(block Ticket) int64 {
	if block.Cost <= l.limit.Burst {
		return block.Cost
	}
	start := l.anchor + up((float64(l.seen)-l.fillMicros()-l.anchorMicros)/l.limit.IntervalMicros)
	return min(block.Cost, block.Number-start)
}

// accept takes what next found.
func (l *Line) accept(e, cost int64) {
	if e > l.tail {
		l.tail = e
		return
	}
	i := slices.IndexFunc(l.free, func(b Ticket) bool { return b.Number-l.trimmed(b) == e-cost })
	if l.free[i].Cost = l.trimmed(l.free[i]) - cost; l.free[i].Cost == 0 {
		l.free = slices.Delete(l.free, i, i+1)
	}
}

// giveBack returns an unused ticket to the line, and reports whether its
// permits are in the line again.
func (l *Line) giveBack(e, cost int64) bool {
	back := Ticket{Number: e, Cost: cost}
	if e == l.final {
		defer l.sink()
	}
	switch {
	case e > l.tail || e-cost < l.floor || l.overflowed(e):
		return false
	case e == l.tail:
		l.tail -= cost
		for l.lastIsFree() {
			last := len(l.free) - 1
			l.tail -= l.free[last].Cost
			l.free = l.free[:last]
		}
		l.final = min(l.final, l.tail)
		return true
	case l.fits(back):
		if !slices.Contains(l.free, back) { // it is, where a rollback was not noticed
			l.free = insert(l.free, back)
		}
		return true
	default:
		return false
	}
}

// sink lowers the final mark past numbers that were not used: those that are free
// or waiting.
func (l *Line) sink() {
	for unused := true; unused; {
		unused = false
		for _, t := range slices.Concat(l.free, l.waiting) {
			if t.Number == l.final {
				l.final -= t.Cost
				unused = true
				break
			}
		}
	}
}

// overflowed reports whether no permit up to e is in the bucket any more.
func (l *Line) overflowed(e int64) bool { return float64(l.seen) > l.Due(e)+l.fillMicros() }

// lastIsFree reports whether the line ends with a free block that may go back.
func (l *Line) lastIsFree() bool {
	if len(l.free) == 0 {
		return false
	}
	block := l.free[len(l.free)-1]
	return block.Number == l.tail && block.Number-block.Cost >= l.floor
}

// losses is how many numbers before the final mark it is known of who lost them.
const losses = 10_000

// lose drops a ticket that waits and is dead, and notes it in the claimed list, below
// zero.
func (l *Line) lose(t Ticket) {
	l.waiting = without(l.waiting, t.Number)
	mark := t.moved()
	mark.Number = -t.Number
	l.claimed = insert(l.claimed, mark)
}

// loseDead drops all that wait and are dead.
func (l *Line) loseDead() {
	for _, t := range slices.Clone(l.waiting) {
		if l.Dead(t) {
			l.lose(t)
		}
	}
}

// displaced reports whether an ID had another number than this, which passed unused or
// was claimed by somebody else.
func (l *Line) displaced(t Ticket) bool {
	mark, ok := find(l.claimed, 0, t.moved().ID)
	if ok && mark.Number < min(0, losses-l.final) {
		mark.Number = t.Number
		l.claimed = insert(l.claimed, mark)
	}
	return ok && mark.Number == t.Number
}

// remember keeps a final ticket for an ID that asks again, and forgets those
// that can not be asked for any more.
func (l *Line) remember(t Ticket) {
	gone := math.Floor(float64(l.tail) - (l.Due(l.tail)-float64(l.seen))/l.limit.IntervalMicros - float64(l.limit.Burst))
	l.claimed = slices.DeleteFunc(l.claimed, func(t Ticket) bool {
		return t.Number > 0 && float64(t.Number) < min(gone, float64(l.final))
	})
	l.claimed = insert(l.claimed, t)
}

// wind makes a late ticket due now by moving the whole line.
func (l *Line) wind(e, cost int64) {
	l.rewind(up(float64(l.seen)-l.Due(e)), e-cost)
}

// rewind moves the whole line back; no number up to below is used after it. What
// overflowed at the beginning of this call is there again.
func (l *Line) rewind(micros, below int64) {
	if l.call.top > 0 && l.tail == l.call.top {
		l.tail -= l.call.skipped
		l.final = l.tail
		l.idle = max(0, l.idle-l.call.skipped)
		l.call.top = 0
	}
	l.anchorMicros += float64(micros)
	l.floor = below
	l.unused(math.Floor(float64(micros) / l.limit.IntervalMicros))
}

// mark is the highest number that became final, without what overflowed.
func (l *Line) mark() int64 {
	if l.call.top > 0 && l.final == l.call.top {
		return l.final - l.call.skipped
	}
	return l.final
}

// unused notes permits that nobody used.
func (l *Line) unused(permits float64) {
	l.idle = int64(min(float64(l.idle)+max(0, permits), most))
}

// The lists are short slices, by number. A cost and an ID name one ticket.

func find(list []Ticket, cost int64, id string) (Ticket, bool) {
	for _, t := range list {
		if t.Cost == cost && t.ID == id {
			return t, true
		}
	}
	return Ticket{}, false
}

func insert(list []Ticket, t Ticket) []Ticket {
	if t.ID != "" {
		list = forget(list, t.Cost, t.ID)
	}
	// Two have one number only where a rollback was not noticed.
	at, _ := slices.BinarySearchFunc(list, t, func(a, b Ticket) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.entry(), b.entry()))
	})
	return slices.Insert(list, at, t)
}

// moved is what the claimed list holds of an ID that has this number since somebody
// else claimed its earlier one. It has no cost: nobody can ask for it.
func (t Ticket) moved() Ticket { return Ticket{Number: t.Number, ID: "!" + t.entry()} }

// entry is how a ticket stands in a list.
func (t Ticket) entry() string { return fmt.Sprintf("%d:%s", t.Cost, t.ID) }

func forget(list []Ticket, cost int64, id string) []Ticket {
	return slices.DeleteFunc(list, func(t Ticket) bool { return t.Cost == cost && t.ID == id })
}

func without(list []Ticket, number int64) []Ticket {
	return slices.DeleteFunc(list, func(t Ticket) bool { return t.Number == number })
}
