package queue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
	"github.com/fleetpace/fleetpace/internal/redistest"
)

const (
	windowMicros = 4e6
	startMicros  = 1.7e15
	steps        = 120
)

// history plays a random fleet against the scripts and the model at once. Replies must be
// equal, and a strict provider must refuse none of the calls.
type history struct {
	*rand.Rand
	server *server
	model  *queuemodel.Redis
	keys   []string

	real, offset float64 // Redis's clock is real + offset
	run          int
	limits       []*ruling
	processes    []*process
	referee      referee
	number       int
	saved        *saved
	counts       map[string]int
	spent        map[spending]float64
	alone        bool // without the model
	trace        func(format string, args ...any)
	settling     bool // costs are settled
	setting      bool // limits are set
	back         bool // Redis's clock steps back, or else ahead
	quiet        bool // calls come one by one, so that most find nobody waiting
}

// spending is what an ask spent of a limit.
type spending struct {
	ask   string
	limit int
}

type ruling struct {
	kind string
	a, b float64
	set  bool
}

type process struct {
	name    string
	way     float64
	serial  int
	memory  []memory
	waiting []*call
	turns   []*turn
}

type memory struct {
	queuemodel.Head
	known  string
	real   float64 // when the reply was there
	lost   bool    // since then, as its heartbeat has told
	offset float64 // of Redis's clock, then
}

type call struct {
	number  int
	parts   []queuemodel.Part
	settles bool
	retry   float64
	back    string // the ask of its last turn, which it slept through
}

type turn struct {
	*call
	ask         string
	from, until float64 // real
	records     []float64
	used        bool
}

type saved struct {
	model  *queuemodel.Redis
	hashes map[string]map[string]string
	sets   map[string][]redis.Z
}

func (h *history) now() float64 { return h.real + h.offset }

func (h *history) pick(n int) bool { return h.IntN(n) == 0 }

func newHistory(seed uint64, client *redis.Client, prefix string, other map[string]*redis.Script) *history {
	h := &history{quiet: seed%3 == 0, settling: seed%3 == 1, setting: seed%5 == 0, back: seed%2 == 0, Rand: rand.New(rand.NewPCG(seed, 1)), model: queuemodel.New(), real: startMicros, counts: map[string]int{}, spent: map[spending]float64{},
		trace: func(string, ...any) {}}
	if os.Getenv("FLEETPACE_TRACE") == strconv.FormatUint(seed, 10) {
		h.trace = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	for j := range 1 + h.IntN(3) {
		kind := []string{"p", "p", "p", "q", "r", "w"}[h.IntN(6)]
		if h.quiet && !h.pick(5) {
			kind = "p"
		}
		r := &ruling{kind: kind}
		switch kind {
		case "p":
			slowest := 4
			if h.quiet {
				slowest = 2
			}
			r.a, r.b = []float64{1e4, 5e4, 1e5, 1e6}[h.IntN(slowest)], []float64{1, 1, 2, 5, 20}[h.IntN(5)]
		case "q":
			r.a, r.b = float64(3+h.IntN(30)), 1e4
		case "r":
			r.a, r.b = float64(3+h.IntN(20)), []float64{3e5, 2e6}[h.IntN(2)]
		case "w":
			r.a, r.b = []float64{1e4, 1e5}[h.IntN(2)], 2e6
		}
		h.limits = append(h.limits, r)
		h.keys = append(h.keys, Keys(prefix, "api", kind, strconv.Itoa(j))...)
	}
	processes := 1 + h.IntN(4)
	if h.quiet {
		processes = 1 + h.IntN(2)
	}
	for p := range processes {
		h.processes = append(h.processes, &process{
			name: "p" + strconv.Itoa(p), way: []float64{50, 1000, 25000}[h.IntN(3)], memory: make([]memory, len(h.limits)),
		})
	}
	h.server = &server{client: client, ctx: context.Background(), ask: Ask, other: other, keys: h.keys}
	return h
}

func (h *history) caller(p *process) queuemodel.Caller {
	p.serial++
	return queuemodel.Caller{
		Now: h.now(), Way: p.way, Horizon: 250000, Near: 60000, Grace: 300000,
		Run: "run" + strconv.Itoa(h.run), Process: p.name, Serial: p.serial,
	}
}

func (h *history) known(p *process) []queuemodel.Limit {
	var limits []queuemodel.Limit
	for j, r := range h.limits {
		m := p.memory[j]
		l := queuemodel.Limit{Kind: r.kind, A: r.a, B: r.b, Known: m.known, Version: m.Version, Reach: slices.Clone(m.Reach),
			Clock: h.real + m.offset}
		switch passed := h.real - m.real; {
		case len(l.Reach) == 0:
		case r.kind == "p" || r.kind == "w":
			l.Reach[0] -= passed
		case r.kind == "r":
			l.Reach[1] -= passed
		}
		if m.known == "" && h.counts["lost"]+h.counts["rollback"] > 0 { // its heartbeat has told it so
			l.Known, l.Reach = "1", []float64{0}
		}
		if m.lost && (r.kind == "p" || r.kind == "w") && len(l.Reach) > 0 {
			l.Reach[0] = max(l.Reach[0], 0)
		}
		if r.kind == "q" {
			first := (math.Floor((h.now()-p.way)/windowMicros) - float64(h.IntN(2))) * windowMicros
			for k := range 5 {
				l.Edges = append(l.Edges, first+float64(k)*windowMicros)
			}
		}
		limits = append(limits, l)
	}
	return limits
}

func (h *history) learn(p *process, heads []queuemodel.Head) {
	for j, head := range heads {
		if head.Version == 0 {
			continue
		}
		m := &p.memory[j]
		text := head.Text
		if text == "" {
			text = m.known
		}
		if text[0] == '~' {
			text = text[1:]
		}
		*m = memory{Head: head, known: text, real: h.real + p.way, offset: h.offset}
	}
}

func (h *history) differ(what string, script, model any) error {
	if h.alone || reflect.DeepEqual(script, model) {
		return nil
	}
	return fmt.Errorf("%s: the script says\n%+v, the model\n%+v", what, script, model)
}

// play plays a history to its end, and returns what was wrong.
func (h *history) play() error {
	for range steps {
		if err := h.step(); err != nil {
			return err
		}
	}
	for range 10 { // all that wait get their turns, or at least go on
		h.pass(200000)
	}
	var buckets []*bucket
	for _, r := range h.limits {
		lost := h.counts["lost"]+h.counts["rollback"] > 0
		// What was lost of a window nobody knows, and not that the limit was set.
		off := (r.kind == "q" || r.kind == "r") && (lost || h.counts["step"] > 0) || r.set && lost ||
			h.counts["silent"] > 0 || r.kind == "w" && lost // what the last call is to pay for may lie beyond the horizon
		buckets = append(buckets, &bucket{kind: r.kind, a: r.a, b: r.b, tat: startMicros - 1e12, off: off})
	}
	return h.referee.verdict(buckets)
}

// pass lets time pass, in which turns are used.
func (h *history) pass(micros float64) {
	until := h.real + micros
	for _, p := range h.processes {
		for _, t := range slices.Clone(p.turns) {
			if t.used || t.from > until {
				continue
			}
			at := max(t.from, h.real)
			switch {
			case at > t.until+bears || h.pick(20): // slept through
				p.turns = slices.DeleteFunc(p.turns, func(o *turn) bool { return o == t })
				if h.pick(2) {
					t.back = t.ask
					for _, o := range p.turns { // others of that ask are used
						if o.ask == t.ask {
							t.back = ""
						}
					}
					t.retry = h.real
					p.waiting = append(p.waiting, t.call)
				}
				continue
			case h.pick(3) && t.until > at:
				at += h.Float64() * (t.until - at)
			}
			if at > until {
				continue
			}
			t.used = true
			h.trace("%.0f: call %d is made", at-startMicros, t.number)
			for _, part := range t.parts {
				h.referee.events = append(h.referee.events, event{at: at, limit: part.Limit, cost: part.Cost, of: t.number})
			}
			h.counts["used"]++
		}
	}
	h.real = until
}

// void drops turns that were not used, as news say; their calls ask again.
func (h *history) void(limit int) {
	for _, p := range h.processes {
		p.turns = slices.DeleteFunc(p.turns, func(t *turn) bool {
			if t.used || !slices.ContainsFunc(t.parts, func(part queuemodel.Part) bool { return part.Limit == limit }) {
				return false
			}
			t.back, t.retry = "", h.real
			p.waiting = append(p.waiting, t.call)
			return true
		})
	}
}

func (h *history) step() error {
	if h.quiet && h.pick(2) {
		h.pass(math.Floor(h.Float64() * 3e5))
	}
	if h.pick(4) {
		h.pass(math.Floor(h.Float64() * 400000))
	} else {
		h.pass(math.Floor(h.Float64() * 20000))
	}
	p := h.processes[h.IntN(len(h.processes))]
	n := h.IntN(100)
	if h.quiet && n >= 86 && !h.pick(8) {
		n = 0
	}
	if h.settling && h.pick(4) {
		n = 80
	}
	h.trace("%.0f: %s does %d", h.real-startMicros, p.name, n)
	switch {
	case n < 70:
		return h.asks(p)
	case n < 80:
		return h.leaves(p)
	case n < 86:
		return h.settles(p)
	case n < 88:
		return h.pauses(p)
	case n < 89:
		return h.resumes(p)
	case n < 91:
		return h.sets(p)
	case n < 92:
		return h.loses()
	case n < 94:
		return h.rollsBack()
	case n < 95:
		h.counts["step"]++
		// Who has not asked since a step back can not see one ahead that follows it.
		if h.back {
			h.offset -= []float64{3e5, 5e6}[h.IntN(2)]
		} else {
			h.offset += []float64{2e6, 1e8}[h.IntN(2)]
		}
	case n < 96: // dies
		if len(h.processes) > 1 {
			h.model.Dead[p.name] = true
			h.server.client.(*redis.Client).ZAdd(h.server.ctx, h.keys[3], redis.Z{Score: -h.now(), Member: p.name})
			h.processes = slices.DeleteFunc(h.processes, func(o *process) bool { return o == p })
			h.counts["died"]++
		}
	}
	return nil
}

func (h *history) parts() (parts []queuemodel.Part) {
	for _, j := range h.Perm(len(h.limits))[:1+h.IntN(len(h.limits))*h.IntN(2)] {
		most := 5.0
		if r := h.limits[j]; r.kind == "p" {
			most = r.b
		} else if r.kind != "w" {
			most = r.a
		}
		cost := 1.0
		if h.pick(3) {
			cost = 1 + math.Floor(h.Float64()*min(most, 5))
		}
		parts = append(parts, queuemodel.Part{Limit: j, Cost: min(cost, most)})
		if h.pick(100) {
			parts[len(parts)-1].Cost = most + 1 // refused
			if h.limits[j].kind == "w" {
				parts[len(parts)-1].Cost = 1
			}
		}
	}
	return parts
}

// asks asks for new calls of a process, and for those that wait and are near.
func (h *history) asks(p *process) error {
	limits := h.known(p)
	who := h.caller(p)
	var items []queuemodel.Item
	var calls []*call
	back := ""
	p.waiting = slices.DeleteFunc(p.waiting, func(c *call) bool {
		if len(items) > 5 || c.retry > h.real && !h.pick(10) || c.back != "" && back != "" {
			return false
		}
		if c.back != "" {
			back = c.back
			for _, part := range c.parts {
				limits[part.Limit].Back = back
			}
			c.back = ""
		}
		items = append(items, queuemodel.Item{Count: 1, Number: c.number, Settles: c.settles, Parts: slices.Clone(c.parts)})
		calls = append(calls, c)
		return true
	})
	fresh := h.IntN(3)
	if h.quiet {
		fresh = h.IntN(2)
	}
	for range fresh {
		item := queuemodel.Item{Count: 1, Number: h.number, Parts: h.parts(), Settles: h.settling && h.pick(2)}
		if len(item.Parts) == 1 && !item.Settles && h.pick(3) {
			item.Count += h.IntN(3)
		}
		h.number += item.Count
		items = append(items, item)
		for k := range item.Count {
			calls = append(calls, &call{number: item.Number + k, parts: slices.Clone(item.Parts), settles: item.Settles})
		}
	}
	if len(items) == 0 {
		return nil
	}
	serial := strconv.Itoa(who.Serial)
	heads, answers, err := h.ask(who, limits, items)
	if err != nil {
		return err
	}
	if h.pick(15) { // the reply was lost: the same again, and what it gave goes back
		h.pass(math.Floor(h.Float64() * 30000))
		h.counts["retried"]++
		who.Now = h.now()
		again := h.known(p)
		for j := range again {
			again[j].Back = p.name + " " + serial
		}
		limits = again
		if heads, answers, err = h.ask(who, limits, items); err != nil {
			return err
		}
	}
	h.learn(p, heads)
	h.take(p, serial, calls, answers)
	return nil
}

func (h *history) ask(who queuemodel.Caller, limits []queuemodel.Limit, items []queuemodel.Item) ([]queuemodel.Head, []queuemodel.Answer, error) {
	heads, answers, err := h.server.Ask(who, limits, items)
	h.trace("%.0f: ask %d of %s (%s): %+v\n  of %+v\n  %+v\n  %+v", h.real-startMicros, who.Serial, who.Process, who.Run, items, limits, answers, heads)
	if err != nil {
		return nil, nil, err
	}
	h.counts["runs"] += h.server.runs
	modelHeads, modelAnswers := h.model.Ask(who, limits, items)
	// Whoever took the common path knows its limit, and gets no tags.
	for i := range answers { // the caller works out a run's turns from the last one, which is rounded
		if i < len(modelAnswers) && math.Abs(answers[i].Usable-modelAnswers[i].Usable) <= 1 {
			answers[i].Usable = modelAnswers[i].Usable
		}
	}
	if err := h.differ(fmt.Sprintf("ask %+v of %+v", items, limits), answers, modelAnswers); err != nil {
		return nil, nil, err
	}
	// Each run of the common path is a version of its own; that it grows is all that counts.
	for j := range heads {
		if heads[j].Version > 0 {
			h.model.Grow(j, heads[j].Version)
			modelHeads[j].Version = max(modelHeads[j].Version, heads[j].Version)
		}
	}
	return heads, answers, h.same("ask", heads, modelHeads)
}

func (h *history) same(what string, script, model []queuemodel.Head) error {
	return h.differ("heads of "+what, script, model)
}

func (h *history) take(p *process, serial string, calls []*call, answers []queuemodel.Answer) {
	arrives := h.real + p.way
	for i, a := range answers {
		c := calls[i]
		switch a.Status {
		case 1:
			h.counts["turns"]++
			h.trace("  a turn for call %d in %+v from %.0f until %.0f", c.number, c.parts, arrives+a.Wait-startMicros, arrives+a.Usable-startMicros)
			t := &turn{call: c, ask: p.name + " " + serial, from: arrives + a.Wait, until: arrives + a.Usable}
			if c.settles {
				t.records = a.Tags
			}
			p.turns = append(p.turns, t)
			for _, part := range c.parts {
				h.spent[spending{t.ask, part.Limit}] += part.Cost
			}
		case 0:
			h.counts["places"]++
			for k := range c.parts {
				c.parts[k].Tag = a.Tags[k]
			}
			c.retry = arrives + max(0, a.Wait-200000*h.Float64())
			p.waiting = append(p.waiting, c)
		}
	}
}

// leaves leaves a place, or gives back a turn: the last of its ask, if all others are used
// or go back, too.
func (h *history) leaves(p *process) error {
	if len(p.waiting) > 0 && h.pick(2) {
		i := h.IntN(len(p.waiting))
		c := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		h.counts["left"]++
		for _, part := range c.parts {
			if err := h.leave(p, part.Limit, "place", strconv.Itoa(c.number), part.Cost); err != nil {
				return err
			}
		}
		return nil
	}
	if len(p.turns) == 0 {
		return nil
	}
	i := len(p.turns) - 1 // of the last ask, and the last one there
	if h.pick(3) {
		i = h.IntN(len(p.turns)) // of another: it lapses, unless nobody has spent since
	}
	t := p.turns[i]
	others := slices.ContainsFunc(p.turns[i+1:], func(o *turn) bool { return o.ask == t.ask })
	if t.used || others {
		return nil
	}
	p.turns = slices.Delete(p.turns, i, i+1)
	h.counts["back"]++
	for _, part := range t.parts {
		spent := spending{t.ask, part.Limit}
		h.spent[spent] -= part.Cost
		keep := h.spent[spent]
		if h.pick(3) { // twice
			if err := h.leave(p, part.Limit, "turn", t.ask, keep); err != nil {
				return err
			}
		}
		if err := h.leave(p, part.Limit, "turn", t.ask, keep); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) leave(p *process, limit int, what, which string, cost float64) error {
	h.trace("%.0f: %s leaves %s %s of limit %d with %v", h.real-startMicros, p.name, what, which, limit, cost)
	who, limits := h.caller(p), h.known(p)
	heads, left, err := h.server.Leave(who, limits, limit, what, which, cost)
	if err != nil {
		return err
	}
	modelHeads, modelLeft := h.model.Leave(who, limits, limit, what, which, cost)
	h.learn(p, heads)
	if left != modelLeft && !h.alone {
		return fmt.Errorf("leave %s %s: %v went back, %v in the model", what, which, left, modelLeft)
	}
	return h.same("leave", heads, modelHeads)
}

func (h *history) settles(p *process) error {
	for i, t := range p.turns {
		if !t.used || !t.settles {
			continue
		}
		p.turns = slices.Delete(p.turns, i, i+1)
		for _, part := range t.parts {
			used := math.Floor(h.Float64() * 2 * part.Cost)
			ok, err := h.settle(p, t, part, used)
			if err != nil {
				return err
			}
			// What it used more nobody could know when the turns were given that are out.
			if used < part.Cost && ok {
				h.charged(t.call, part, used)
			}
			if h.pick(3) { // that it is told twice changes nothing
				if _, err := h.settle(p, t, part, used); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return nil
}

func (h *history) settle(p *process, t *turn, part queuemodel.Part, used float64) (bool, error) {
	h.counts["settled"]++
	who, limits := h.caller(p), h.known(p)
	id := p.name + ":" + strconv.Itoa(t.number)
	heads, ok, err := h.server.Settle(who, limits, part.Limit, id, part.Cost, used)
	if err != nil {
		return false, err
	}
	modelHeads, modelOK := h.model.Settle(who, limits, part.Limit, id, part.Cost, used)
	h.learn(p, heads)
	if ok != modelOK && !h.alone {
		return false, fmt.Errorf("settle: %v, %v in the model", ok, modelOK)
	}
	return ok, h.same("settle", heads, modelHeads)
}

// charged tells the provider that a call used less: it knew when the call was made.
func (h *history) charged(c *call, part queuemodel.Part, used float64) {
	for i := range h.referee.events {
		e := &h.referee.events[i]
		if e.limit == part.Limit && e.cost == part.Cost && e.of == c.number {
			e.cost = used
		}
	}
}

// only is what a verb of one limit sees.
func (h *history) only(p *process, j int) ([]queuemodel.Limit, *server, *queuemodel.Redis) {
	one := *h.server
	one.keys = h.keys[4*j : 4*j+4]
	return h.known(p)[j : j+1], &one, h.model.Only(j)
}

func (h *history) learnOne(p *process, j int, heads []queuemodel.Head) {
	all := make([]queuemodel.Head, len(h.limits))
	all[j] = heads[0]
	h.learn(p, all)
}

func (h *history) pauses(p *process) error {
	j := h.IntN(len(h.limits))
	micros := math.Floor(h.Float64() * 2e6)
	limits, server, model := h.only(p, j)
	who := h.caller(p)
	heads, left, err := server.Pause(who, limits, micros+1)
	if err != nil {
		return err
	}
	modelHeads, modelLeft := model.Pause(who, limits, micros+1)
	h.model.Take(j, model)
	h.learnOne(p, j, heads)
	h.void(j)
	h.counts["paused"]++
	if left != modelLeft && !h.alone {
		return fmt.Errorf("pause: %v, %v in the model", left, modelLeft)
	}
	return h.same("pause", heads, modelHeads)
}

func (h *history) resumes(p *process) error {
	j := h.IntN(len(h.limits))
	limits, server, model := h.only(p, j)
	who := h.caller(p)
	heads, err := server.Resume(who, limits)
	if err != nil {
		return err
	}
	modelHeads := model.Resume(who, limits)
	h.model.Take(j, model)
	h.learnOne(p, j, heads)
	h.void(j)
	return h.same("resume", heads, modelHeads)
}

func (h *history) sets(p *process) error {
	j := h.IntN(len(h.limits))
	r := h.limits[j]
	if r.kind != "p" || !h.setting {
		return nil
	}
	limits, server, model := h.only(p, j)
	who := h.caller(p)
	a, b := r.a*[]float64{0.5, 1, 2}[h.IntN(3)], max(1, math.Floor(r.b*[]float64{0.5, 1, 2}[h.IntN(3)]))
	heads, err := server.Set(who, limits, a, b, 0)
	if err != nil {
		return err
	}
	modelHeads := model.Set(who, limits, a, b, 0)
	h.model.Take(j, model)
	h.learnOne(p, j, heads)
	h.void(j)
	h.counts["set"]++
	r.set = true
	real := h.real
	h.referee.events = append(h.referee.events, event{at: real, limit: j, change: func(k *bucket) {
		if k.tat < real {
			level := min((real-k.tat)/k.a, k.b, b)
			k.tat = real - level*a
		}
		k.a, k.b = a, b
	}})
	return h.same("set", heads, modelHeads)
}

// loses deletes all that Redis holds.
func (h *history) loses() error {
	h.counts["lost"]++
	h.suspect()
	h.model.Limits = map[int]*queuemodel.State{}
	return h.server.client.(*redis.Client).Del(h.server.ctx, h.keys...).Err()
}

// suspect lets all processes know by their heartbeats that data was lost.
func (h *history) suspect() {
	for _, p := range h.processes {
		for j := range p.memory {
			p.memory[j].lost = true
		}
	}
}

// rollsBack brings back what Redis held some time ago, as a replica that lags does.
func (h *history) rollsBack() error {
	client, ctx := h.server.client.(*redis.Client), h.server.ctx
	if h.saved == nil {
		h.saved = &saved{h.model.Copy(), map[string]map[string]string{}, map[string][]redis.Z{}}
		for i, key := range h.keys {
			if i%4 == 0 {
				h.saved.hashes[key] = client.HGetAll(ctx, key).Val()
			} else {
				h.saved.sets[key] = client.ZRangeWithScores(ctx, key, 0, -1).Val()
			}
		}
		return nil
	}
	h.counts["rollback"]++
	h.suspect()
	if err := client.Del(ctx, h.keys...).Err(); err != nil {
		return err
	}
	for key, hash := range h.saved.hashes {
		if len(hash) > 0 {
			client.HSet(ctx, key, hash)
		}
	}
	for key, set := range h.saved.sets {
		if len(set) > 0 {
			client.ZAdd(ctx, key, set...)
		}
	}
	h.model, h.saved = h.saved.model, nil
	if h.pick(4) { // a server that says nothing of it; only who has seen more can tell
		h.counts["silent"]++
	} else {
		h.run++
	}
	return nil
}

// histories is how many a test plays: FLEETPACE_HISTORIES, or else a few hundred.
func histories(t *testing.T) uint64 {
	if text := os.Getenv("FLEETPACE_HISTORIES"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	return 300
}

func TestScriptsEqualModel(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client, counts := server.Client(t), map[string]int{}
		prefix := redistest.Prefix(t)
		for seed := range histories(t) {
			h := newHistory(seed, client, prefix+strconv.FormatUint(seed, 10), nil)
			err := h.play()
			require.NoError(t, err, "seed %d", seed)
			for what, n := range h.counts {
				counts[what] += n
			}
			require.NoError(t, client.Del(t.Context(), h.keys...).Err())
		}
		t.Log(counts)
	})
}
