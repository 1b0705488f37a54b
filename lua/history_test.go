package lua

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/internal/model"
)

// player is a line that a history is played on: the model, or the scripts.
type player interface {
	take(at int64, limit model.Limit, c model.Caller, bound float64, requests []model.Request) model.Reply
	quick(at int64, limit model.Limit, c model.Caller, row model.Row) model.Given
	claim(at int64, limit model.Limit, c model.Caller, bound float64, tickets []model.Ticket) model.Reply
	cancel(at int64, limit model.Limit, c model.Caller, tickets []model.Cancellation)
	charge(at int64, limit model.Limit, c model.Caller, what model.Charge) model.Reply
	pause(at int64, limit model.Limit, c model.Caller, micros float64) model.Reply
	resume(at int64, limit model.Limit, c model.Caller) model.Reply
	set(at int64, limit model.Limit, c model.Caller, to model.Limit, micros float64) model.Reply
	inspect(at int64, limit model.Limit)
	forget(at int64, limit model.Limit, cost int64, id string)
	lose(at int64)
	dump(at int64)     // what the keys hold is kept …
	rollback(at int64) // … and brought back
	// lateAt is the last moment, on Redis's clock, at which a ticket that was
	// granted just now fits in the bucket.
	lateAt(number, cost int64) (micros float64, known bool)
}

// ticket is a caller's ticket and what the caller knows of it.
type ticket struct {
	cost   int64
	id     string
	keep   bool
	state  ticketState
	epoch  int64
	number int64
	byID   bool  // it is cancelled by ID
	callAt int64 // when held: the true time of the call to come
	turnAt int64 // when waiting: the true time at which its turn was expected
	done   int64 // the number with which a call was made …
	doneIn int64 // … and its epoch
}

type ticketState int

const (
	refused   ticketState = iota // or never asked for
	unsure                       // the reply was lost
	waiting                      // to be claimed
	held                         // final, and not called yet
	called                       // the call was made
	cancelled                    // given back
)

// call is a call that a caller made, in true time.
type call struct {
	at   int64
	cost int64
}

// counts are what the histories of a run consisted of, by name.
type counts map[string]int

func (c counts) add(o counts) {
	for name, n := range o {
		c[name] += n
	}
}

// history is a random run of correct callers on one limit. Everything follows
// from the seed, and from the replies of the player.
type history struct {
	rng     *rand.Rand
	player  player
	trouble trouble
	limit   model.Limit
	bound   float64
	simple  bool // most tickets are taken to be used at once

	now    int64 // true time, micros
	offset int64 // Redis's clock minus true time

	tickets   []*ticket
	nextID    int
	calls     []call
	processes []*process
	reachAt   float64 // true time to which the line reached by the last reply
	allKnow   bool    // processes send along what they remember

	damage
	pauses   []pauseOfAll
	rates    []rate // in true time, oldest first
	maxBurst int64
	epochs   map[int64]bool
	gens     map[int64]int64 // how often the line had moved final tickets, by epoch
	counts   counts
}

// rate says from when on the line had an interval.
type rate struct {
	from           int64
	intervalMicros float64
}

// intervals are micros per permit: whole and fractional, short and long.
var intervals = []float64{
	1, 1.5, 3.7, 10, 142.857142857142861, 1000, 10000. / 3, 100000, 142857.14285714287,
	1e6 / 3., 1e6, 3e6, 60e6, 3600e6,
}

// noneFinal is the bound of a take or claim under which every ticket has to be claimed.
const noneFinal = -1

// startMicros is a moment of the size that Redis's clock has.
const startMicros = 1_800_000_000_000_000

// play plays a history of up to steps calls. The same seed and the same replies
// give the same history. Its trouble is random, or the one given.
func play(seed uint64, steps int, p player, troubles ...trouble) *history {
	rng := rand.New(rand.NewPCG(seed, 0x6c696e65))
	h := &history{rng: rng, player: p, now: startMicros + rng.Int64N(1e9), epochs: map[int64]bool{}, gens: map[int64]int64{}, counts: counts{}}
	h.trouble = anyTrouble(rng)
	if len(troubles) > 0 {
		h.trouble = troubles[0]
	}
	h.allKnow = !h.trouble.Forgotten && (h.trouble.Lost || rng.IntN(3) > 0)
	for _, name := range []string{"a", "b", "c"}[:1+rng.IntN(3)] {
		if rng.IntN(6) == 0 {
			name = ""
		}
		h.processes = append(h.processes, &process{name: name})
		if name != "" && !h.trouble.Away && rng.IntN(3) == 0 {
			h.processes = append(h.processes, &process{name: name + "/1"}) // with a memory of its own
		}
	}
	h.limit = model.Limit{IntervalMicros: h.interval(), Burst: 1}
	if rng.IntN(3) > 0 {
		h.limit.Burst = 1 + rng.Int64N(20)
	}
	h.maxBurst = h.limit.Burst
	h.bound = h.pickBound()
	h.simple = !h.trouble.Away && rng.IntN(3) == 0
	h.rates = []rate{{math.MinInt64, h.limit.IntervalMicros}}
	h.reachAt = math.Inf(-1)

	for h.counts["steps"] < steps {
		h.act()
		h.advance()
	}
	// Those who hold a number make their calls; those who wait never come.
	h.passTo(math.MaxInt64)
	return h
}

func (h *history) interval() float64 {
	if h.rng.IntN(4) == 0 {
		return math.Exp(h.rng.Float64() * math.Log(3600e6))
	}
	return intervals[h.rng.IntN(len(intervals))]
}

func (h *history) pickBound() float64 {
	switch h.rng.IntN(5) {
	case 0:
		return 0
	case 1:
		return h.limit.IntervalMicros * h.rng.Float64() * 3
	case 2:
		return math.Floor(h.limit.IntervalMicros * float64(h.limit.Burst))
	case 3:
		return 1e6
	default:
		return h.limit.IntervalMicros * 1000
	}
}

// clock is Redis's clock.
func (h *history) clock() int64 { return h.now + h.offset }

// act makes one call of a script.
func (h *history) act() {
	h.counts["steps"]++
	if h.meddle() {
		return
	}
	switch n := h.rng.IntN(100); {
	case n < 42 || len(h.tickets) == 0 || h.simple && n < 75:
		h.take()
	case n < 67:
		h.claim()
	case n < 87:
		h.cancel()
	case n < 89:
		h.player.inspect(h.clock(), h.limit)
	case n < 92:
		h.forget()
	case n < 94:
		h.pauseOrResume()
	default:
		h.befall()
	}
}

func (h *history) take() {
	p, numbered := h.ready()
	var tickets []*ticket
	var requests []model.Request
	for range 1 + h.rng.IntN(3) {
		t := h.pick(refused, unsure, waiting, held, called, cancelled)
		again := t != nil && h.rng.IntN(5) == 0
		if again && (!t.keep && t.state != unsure && t.state != waiting || t.cost > h.limit.Burst || slices.Contains(tickets, t)) {
			again = false // nobody asks again for a ticket under an ID that was not kept
		}
		if !again {
			t = h.newTicket()
		}
		tickets = append(tickets, t)
		requests = append(requests, model.Request{Cost: t.cost, MaxWaitMicros: h.maxWait(), ID: t.id, Keep: t.keep})
	}
	h.request(p, numbered, tickets, requests)
}

// ask takes one ticket, of any wait.
func (h *history) ask(t *ticket) {
	p, numbered := h.ready()
	h.request(p, numbered, []*ticket{t}, []model.Request{{Cost: t.cost, MaxWaitMicros: -1, ID: t.id, Keep: t.keep}})
}

func (h *history) request(p *process, numbered bool, tickets []*ticket, requests []model.Request) {
	bound := h.bound
	if h.rng.IntN(5) == 0 && !h.simple {
		bound = noneFinal
		h.counts["lined_up"] += len(requests)
	}
	h.counts["takes"] += len(requests)
	m := &message{from: p, run: func(m *message, c model.Caller) (model.Reply, func(bool)) {
		reply := h.player.take(h.clock(), h.limit, c, bound, requests)
		return reply, func(lost bool) {
			h.settle(m.from, tickets, reply, lost, func(t *ticket) bool { return t.keep })
		}
	}}
	if numbered && h.allKnow {
		h.mayBeQuick(m, tickets, requests, bound)
	}
	h.send(numbered, m)
}

func (h *history) newTicket() *ticket {
	cost := int64(1)
	if h.rng.IntN(2) == 0 {
		cost = 1 + h.rng.Int64N(h.limit.Burst)
	}
	h.nextID++
	t := &ticket{cost: cost, id: "job-" + strconv.Itoa(h.nextID), keep: !h.simple && h.rng.IntN(2) == 0}
	h.tickets = append(h.tickets, t)
	return t
}

func (h *history) maxWait() float64 {
	switch h.rng.IntN(6) {
	case 0:
		return 0
	case 1:
		return math.Floor(h.limit.IntervalMicros * float64(h.rng.Int64N(2*h.limit.Burst+3)))
	default:
		return -1
	}
}

func (h *history) claim() {
	p, numbered := h.ready()
	var tickets []*ticket
	var asked []model.Ticket
	for range 1 + h.rng.IntN(2) {
		var t *ticket
		switch n := h.rng.IntN(20); {
		case n < 14:
			t = h.pick(waiting)
		case n < 17:
			t = h.pick(unsure, waiting, held, refused)
		case n < 18:
			t = h.newTicket() // an ID that nobody knows
		}
		if t == nil || t.cost > h.limit.Burst || slices.Contains(tickets, t) {
			continue
		}
		tickets = append(tickets, t)
		asked = append(asked, model.Ticket{Cost: t.cost, ID: t.id})
	}
	if len(asked) == 0 {
		h.take()
		return
	}
	bound := h.bound
	if h.rng.IntN(8) == 0 {
		bound = noneFinal
	}
	h.counts["claims"] += len(asked)
	h.send(numbered, &message{from: p, run: func(m *message, c model.Caller) (model.Reply, func(bool)) {
		reply := h.player.claim(h.clock(), h.limit, c, bound, asked)
		return reply, func(lost bool) {
			h.settle(m.from, tickets, reply, lost, func(*ticket) bool { return true })
		}
	}})
}

// settle tells the callers what they got. Some replies get lost; who asks again
// goes by the later reply.
func (h *history) settle(p *process, tickets []*ticket, reply model.Reply, lost bool, byID func(*ticket) bool) {
	for i, t := range tickets {
		g := reply.Grants[i]
		switch {
		case t.state == called && lost:
			// Its call was made.
		case g.Status == model.Final && t.done == g.Number && t.doneIn == reply.Epoch:
			t.state = called // nobody calls twice for one ticket
		case lost:
			t.state = unsure
		case g.Status == model.Refused:
			t.state = refused
		case g.Status == model.Waiting:
			t.state, t.epoch, t.number = waiting, reply.Epoch, g.Number
			t.turnAt = h.now + g.WaitMicros
		default:
			h.give(p, t.cost)
			t.state, t.epoch, t.number = held, reply.Epoch, g.Number
			t.byID = byID(t)
			t.callAt = h.now + g.WaitMicros + h.lateness(g, t.cost)
		}
	}
}

// lateness is by how much a caller misses its turn, as far as it may.
func (h *history) lateness(g model.Grant, cost int64) int64 {
	if h.trouble.RateChange || h.trouble.RateSet {
		return 0 // nobody knows for how long a ticket of another rate fits
	}
	var most float64
	if late, known := h.player.lateAt(g.Number, cost); known {
		most = math.Floor(late) - float64(h.clock()+g.WaitMicros)
	} else if g.WaitMicros > 0 {
		most = math.Floor(float64(h.limit.Burst-cost)*h.limit.IntervalMicros) - 1
	}
	switch h.rng.IntN(4) {
	case 0:
		return int64(max(0, most))
	case 1:
		return int64(max(0, math.Floor(most*h.rng.Float64())))
	default:
		return 0
	}
}

func (h *history) cancel() {
	p, numbered := h.ready()
	var tickets []model.Cancellation
	for range 1 + h.rng.IntN(2) {
		t := h.pick(unsure, waiting, held, cancelled)
		switch {
		case h.rng.IntN(20) == 0:
			tickets = append(tickets, model.Cancellation{Cost: 1, ID: "nobody"})
			continue
		case t == nil || t.cost > h.limit.Burst:
			continue
		case t.state == held && !t.byID:
			tickets = append(tickets, model.Cancellation{Cost: t.cost, Epoch: t.epoch, Number: t.number})
		case t.state == cancelled && !t.byID:
			continue
		case t.state != cancelled && h.rng.IntN(3) == 0: // it leaves, and keeps its place
			t.byID = true
			t.state = waiting
			tickets = append(tickets, model.Cancellation{Cost: t.cost, ID: t.id, Number: 1 + h.rng.Int64N(2)})
			h.counts["left"]++
			continue
		default:
			t.byID = true
			tickets = append(tickets, model.Cancellation{Cost: t.cost, ID: t.id})
		}
		t.state = cancelled
	}
	if len(tickets) == 0 {
		h.take()
		return
	}
	h.giveBack(p, numbered, tickets...)
}

func (h *history) giveBack(p *process, numbered bool, tickets ...model.Cancellation) {
	h.counts["cancels"] += len(tickets)
	for i := range tickets {
		if tickets[i].ID != "" && numbered && h.allKnow {
			tickets[i].Epoch = p.epoch
		}
	}
	h.send(numbered, &message{from: p, cancels: true, run: func(_ *message, c model.Caller) (model.Reply, func(bool)) {
		h.player.cancel(h.clock(), h.limit, c, tickets)
		return model.Reply{}, func(bool) {}
	}})
}

// forget uses an ID anew: its call was made, and the next one is another. Whoever
// did not forget it would get the turn of the call that was made.
func (h *history) forget() {
	t := h.pick(called)
	if t == nil || t.cost > h.limit.Burst {
		h.take()
		return
	}
	h.counts["forgets"]++
	h.forgotten += float64(t.cost)
	h.player.forget(h.clock(), h.limit, t.cost, t.id)
	t.state, t.done, t.doneIn, t.keep = refused, 0, 0, true
	h.ask(t)
}

// pick returns a ticket in one of the states, the younger the likelier; nil
// when there is none.
func (h *history) pick(states ...ticketState) *ticket {
	for range 10 {
		if len(h.tickets) == 0 {
			return nil
		}
		back := int(h.rng.ExpFloat64() * 8)
		t := h.tickets[max(0, len(h.tickets)-1-back)]
		if h.rng.IntN(4) == 0 {
			t = h.tickets[h.rng.IntN(len(h.tickets))]
		}
		if slices.Contains(states, t.state) {
			return t
		}
	}
	return nil
}

// advance lets time pass.
func (h *history) advance() {
	i := h.limit.IntervalMicros
	fill := i * float64(h.limit.Burst)
	var by float64
	switch n := h.rng.IntN(100); {
	case n < 20:
		return
	case n < 45: // to shortly before, or to, somebody's turn
		if t := h.pick(waiting); t != nil {
			lead := [...]float64{0, 0, h.bound, i / 2, i * 3}[h.rng.IntN(5)]
			by = float64(t.turnAt-h.now) - lead
			break
		}
		by = i * h.rng.Float64()
	case n < 70:
		by = i * h.rng.Float64() * 2
	case n < 85:
		by = fill * h.rng.Float64() * 3
	case n < 92: // until the bucket is full, or nearly, or just overflows
		by = max(0, h.reachAt-float64(h.now)) + fill + (h.rng.Float64()-0.5)*2*i
	case n < 96:
		by = max(0, h.reachAt-float64(h.now)) + fill + 1e6*h.rng.Float64()
	default: // until the keys expire
		by = max(70e6, max(0, h.reachAt-float64(h.now))+fill) + 1e6 + 2e3*h.rng.Float64()
	}
	if by > 0 && !math.IsInf(by, 1) {
		h.passTo(h.now + int64(by))
	}
}

// passTo lets true time pass, and those who hold a number make their calls.
func (h *history) passTo(at int64) {
	for _, t := range h.tickets {
		if t.state == held && t.callAt <= at {
			t.state = called
			t.done, t.doneIn = t.number, t.epoch
			h.calls = append(h.calls, call{t.callAt, t.cost})
			h.counts["calls"]++
		}
	}
	h.now = at
}

func (h *history) String() string {
	return fmt.Sprintf("interval %v, burst %d, bound %v, %+v", h.limit.IntervalMicros, h.limit.Burst, h.bound, h.trouble)
}

// callList shows the calls in true time; the steps' times are on Redis's clock.
func (h *history) callList() string {
	var b strings.Builder
	for _, c := range h.calls {
		fmt.Fprintf(&b, "     call of cost %d at %d\n", c.cost, c.at-startMicros)
	}
	return b.String()
}
