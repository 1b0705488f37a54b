package lua

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

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
		case r.kind == "r" || r.kind == "s":
			l.Reach[1] -= passed
		}
		if m.known == "" && h.counts["lost"]+h.counts["rollback"] > 0 { // its heartbeat has told it so
			l.Known, l.Reach = "1", []float64{0}
		}
		if r.kind == "s" && (m.lost || l.Known == "1") {
			l.Reach = []float64{1, 0}
		}
		if m.lost && (r.kind == "p" || r.kind == "w") && len(l.Reach) > 0 {
			l.Reach[0] = max(l.Reach[0], 0)
		}
		if r.kind == "r" {
			l.Late = r.late
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
		text, _, _ = strings.Cut(strings.TrimPrefix(text, "~"), "@stop ")
		*m = memory{Head: head, known: text, real: h.real + p.way, offset: h.offset}
	}
}

func (h *history) differ(what string, script, model any) error {
	if h.alone || reflect.DeepEqual(script, model) {
		return nil
	}
	return fmt.Errorf("%s: the script says\n%+v, the model\n%+v", what, script, model)
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
		items = append(items, c.item())
		calls = append(calls, c)
		return true
	})
	for _, c := range h.comeBack() {
		items = append(items, c.item())
		calls = append(calls, c)
	}
	fresh := h.IntN(3)
	if h.quiet {
		fresh = h.IntN(2)
	}
	for range fresh {
		c := call{number: h.number, parts: h.parts(), settles: h.settling && h.pick(2), now: h.pick(8)}
		if h.flowing && !h.pick(4) {
			c.flow = &queuemodel.Flow{Name: []string{"", "a", "b: c", "d"}[h.IntN(4)], Weight: []float64{1, 3, 0.25}[h.IntN(3)]}
			if h.pick(6) {
				c.flow.Urgent = []float64{0.5, 0.2}[h.IntN(2)]
			}
		}
		if h.booking && h.pick(2) {
			c.id = "id " + strconv.Itoa(h.number)
			h.patient(&c, -1)
		}
		item := c.item()
		if len(item.Parts) == 1 && !item.Settles && c.id == "" && h.pick(3) {
			item.Count += h.IntN(3)
		}
		if h.hasty && item.Count == 1 && c.id == "" && !c.now {
			item.Within = []float64{1, 200000, 1e6, 5e6}[h.number%4]
		}
		if h.bounded {
			item.Most = float64(1 + item.Number%4)
		}
		h.number += item.Count
		items = append(items, item)
		for k := range item.Count {
			one := c
			one.number, one.parts = item.Number+k, slices.Clone(item.Parts)
			calls = append(calls, &one)
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
			if !h.queueing || h.pick(2) { // else its turns are lost
				again[j].Back = p.name + " " + serial
			}
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
			t := &turn{call: c, of: p, ask: p.name + " " + serial, from: arrives + a.Wait, until: arrives + a.Usable}
			t.tags = a.Tags
			p.turns = append(p.turns, t)
			for _, part := range c.parts {
				h.spent[spending{t.ask, part.Limit}] += part.Cost
			}
		case 0:
			if c.now {
				h.counts["not now"]++
				break
			}
			h.counts["places"]++
			h.learnTags(c, a)
			c.retry = arrives + max(0, a.Wait-200000*h.Float64())
			p.waiting = append(p.waiting, c)
		case 3:
			h.counts["booked"]++
			h.learnTags(c, a)
			h.books(c, arrives+a.Wait)
		case 4, 5: // some have a place still, or a booking
			h.counts["too late"]++
			if c.latest = never; h.pick(2) {
				c.retry = arrives
				p.waiting = append(p.waiting, c)
			}
		}
	}
}
