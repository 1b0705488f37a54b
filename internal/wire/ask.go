package wire

import (
	"context"
	"math"
	"slices"
	"time"

	scripts "github.com/fleetpace/fleetpace/lua"
)

// Item is one call that asks for its turn, or several equal calls.
type Item struct {
	Count   int   // more than one only if all are new
	Number  int64 // of the first call; the next calls have the next numbers
	Settles bool  // their costs are settled later
	Now     bool  // they do not wait: a turn that is due at once, or nothing
	ID      *ID   // of a call that may be booked; nil: it may not
	Flow    Flow
	Latest  time.Time     // a call whose turn is later has neither turn nor place; zero: no bound
	Ahead   time.Duration // turns ahead of calls, to be used within that time; 0: turns of calls
	Parts   []Part
}

// ID is the ID of a call that is booked if its turn is far away: it is made later then.
type ID struct {
	Text     string
	Patience time.Duration // a call whose turn is further away is booked; below 0: every call is
	Latest   time.Duration // a call whose turn is further away is not booked; 0: no bound
}

// Part is what a call needs at one limit.
type Part struct {
	Limit int // the index of the limit in the Call
	Cost  int64
	Tag   int64 // 0: none
}

// Answer is the answer to one call of an item. All times count from the arrival of the reply.
type Answer struct {
	Turn    bool
	Booked  bool          // the call comes back for its turn
	TooLate bool          // the turn would be too late: it has neither turn nor place
	Full    bool          // too many calls wait: nothing has changed
	Refused error         // or nil
	Wait    time.Duration // until the turn, or a forecast
	Slowest int           // without a turn: the part that holds the call back most
	Until   time.Duration // with a turn: it may be used until then, which may be below 0
	Tags    []int64       // with a place; nil: none
}

// Answers are the answers to the calls of an item. If an item has many calls, only the first may be
// answered; the other calls have to ask again.
type Answers struct {
	Count int
	each  []Answer // or else a run of turns, one step after the other:

	last, step, usable float64 // micros
}

// AnswersOf returns some answers, for tests without Redis.
func AnswersOf(each ...Answer) Answers { return Answers{Count: len(each), each: each} }

// Turns returns how many of the answers are turns.
func (a *Answers) Turns() (n int) {
	if a.each == nil {
		return a.Count
	}
	for i := range a.each {
		if a.each[i].Turn {
			n++
		}
	}
	return n
}

// At returns the answer to the kth call.
func (a *Answers) At(k int) Answer {
	if a.each != nil {
		return a.each[k]
	}
	due := a.last - float64(a.Count-1-k)*a.step
	return Answer{Turn: true, Wait: micros(math.Ceil(max(0, due))), Until: micros(math.Floor(due + a.usable))}
}

// Ask makes the call, and returns the answers to each item.
func Ask(ctx context.Context, c *Call, items []Item) (Reply, []Answers, error) {
	reply, answers, ok, err := c.take(ctx, items)
	switch {
	case !ok:
		c.again()
		return c.ask(ctx, items)
	case err != nil:
		return reply, nil, err
	case slices.ContainsFunc(answers, func(a Answers) bool { return a.Count == 0 }):
		return c.askRest(ctx, items, reply, answers)
	}
	return reply, answers, nil
}

// ask asks in full.
func (c *Call) ask(ctx context.Context, items []Item) (Reply, []Answers, error) {
	a := c.begin(scripts.Ask)
	for i := range items {
		a.item(&items[i], c)
	}
	reply, r, err := c.run(ctx, scripts.Ask)
	if err != nil {
		return reply, nil, err
	}
	answers := c.Buffer.answers[:0]
	for i := range items {
		answers = append(answers, r.answers(c, &items[i]))
	}
	if c.Buffer.answers = answers; r.err != nil {
		return reply, nil, r.err
	}
	return reply, answers, nil
}

// item adds an item of a call.
func (a *args) item(item *Item, c *Call) {
	how := item.how()
	if how&(asksNow|asksAhead) == 0 && slices.ContainsFunc(item.Parts, func(p Part) bool { return c.Limits[p.Limit].MaxWaiting > 0 }) {
		how |= asksBounded
	}
	a.number(int64(item.Count))
	a.number(item.Number)
	a.number(int64(how))
	if how&asksWithin > 0 {
		a.number(item.Latest.Sub(c.Now).Microseconds())
	}
	if how&asksOfFlow > 0 {
		a.float(item.Flow.Weight)
		a.float(item.Flow.Urgent)
		a.text(item.Flow.Name)
	}
	switch {
	case how&asksAhead > 0:
		a.number(item.Ahead.Microseconds())
	case how&asksWithID > 0:
		a.text(item.ID.Text)
		a.number(item.ID.Patience.Microseconds())
		a.number(item.ID.latest())
	}
	a.number(int64(len(item.Parts)))
	for _, p := range item.Parts {
		a.number(int64(p.Limit + 1))
		a.number(p.Cost)
		if p.Tag == 0 {
			a.text("")
		} else {
			a.number(p.Tag)
		}
	}
	for i := 0; i < len(item.Parts) && how&asksBounded > 0; i++ {
		a.number(int64(c.Limits[item.Parts[i].Limit].MaxWaiting))
	}
}

// How an item asks, as ask.lua explains.
const (
	asksSettles = 1 << iota
	asksNow
	asksWithID
	asksAhead
	asksOfFlow
	asksWithin
	asksBounded
)

func (item *Item) how() (how int) {
	if item.Settles {
		how |= asksSettles
	}
	if item.Now {
		how |= asksNow
	}
	if item.Flow.Weight > 0 {
		how |= asksOfFlow
	}
	switch {
	case item.Ahead > 0:
		how |= asksAhead
	case item.ID != nil:
		how |= asksWithID
	case !item.Latest.IsZero():
		how |= asksWithin
	}
	return how
}

func (id *ID) latest() int64 {
	if id.Latest == 0 {
		return math.MaxInt64 // the queue of a slow limit may be long
	}
	return id.Latest.Microseconds()
}

func (r *reader) answers(c *Call, item *Item) Answers {
	if r.number() == 1 {
		return c.turns(item, r.number())
	}
	count := int(r.number())
	if count < 0 || count > item.Count {
		r.fail("there are more answers than calls")
		count = 0
	}
	answers := Answers{Count: count, each: make([]Answer, 0, count)}
	for len(answers.each) < count && r.err == nil {
		status, a := r.number(), Answer{}
		a.Wait = r.micros()
		switch status {
		case 0, 3, 4, 5:
			a.Booked, a.TooLate, a.Full, a.Slowest = status == 3, status == 4, status == 5, int(r.number())-1
			a.Tags = r.numbers(len(item.Parts))
		case 1:
			a.Turn, a.Until = true, r.micros()
			if numbers := r.numbers(len(item.Parts)); !item.Settles { // then they are records
				a.Tags = numbers
			}
		case 2:
			a.Refused = problemOf(r.text())
			r.numbers(len(item.Parts))
		default:
			r.fail("an answer is none of turn, place and refusal")
		}
		answers.each = append(answers.each, a)
	}
	return answers
}

// turns are a run of turns, one for each call of an item: the time until the last turn determines the others.
func (c *Call) turns(item *Item, last int64) Answers {
	p := item.Parts[0]
	l := c.Buffer.args.terms[p.Limit]
	return Answers{Count: item.Count, last: float64(last), step: float64(p.Cost) * l.a, usable: (l.b - float64(p.Cost)) * l.a}
}

// numbers reads n numbers, or returns nil if the first one is missing.
func (r *reader) numbers(n int) []int64 {
	if len(r.values) < n {
		r.fail("the reply is too short")
		return nil
	}
	if r.values[0] == "" {
		r.values = r.values[n:]
		return nil
	}
	numbers := make([]int64, n)
	for i := range numbers {
		numbers[i] = r.number()
	}
	return numbers
}

func micros(x float64) time.Duration {
	return time.Duration(min(max(x, -farthest), farthest)) * time.Microsecond
}

// Flow is a group of calls that share a part of a limit: a tenant, an account, a queue. The zero Flow has
// no name.
type Flow struct {
	Name   string
	Weight float64 // from 1e-6 to 1e6; calls that name no flow have 1 together
	Urgent float64 // the part of the limit that urgent calls have together, below 1; 0: not urgent
}

// text is "<weight>:<name>", as a place has it. Urgent calls have no weight.
func (f *Flow) text() string {
	weight := f.Weight
	if f.Urgent > 0 {
		weight = 0
	}
	return exact(weight) + ":" + f.Name
}

// size adds the cost and the flow, as a place has them.
func (a *args) size(f *Flow, cost int64) {
	if f.Weight == 0 {
		a.number(cost)
		return
	}
	a.joined(':', f.text(), cost)
}

// flow adds a flow, or an empty text.
func (a *args) flow(f *Flow) {
	if f.Weight == 0 {
		a.text("")
		return
	}
	a.text(f.text())
}
