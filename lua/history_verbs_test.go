package lua

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// leaves leaves a place, or gives back a turn: the last of its ask, if all others are used
// or go back, too. A call with an ID may be booked then.
func (h *history) leaves(p *process) error {
	if len(h.booked) > 0 && h.pick(4) {
		return h.drops(p)
	}
	if len(p.waiting) > 0 && h.pick(2) {
		i := h.IntN(len(p.waiting))
		c := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		h.counts["left"]++
		if c.id != "" && !h.pick(3) {
			return h.book(p, c)
		}
		for _, part := range c.parts {
			if err := h.leave(p, part.Limit, "place", strconv.Itoa(c.number), part.Cost, c.flow); err != nil {
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
	if err := h.slots(p, t, "done"); err != nil {
		return err
	}
	for _, part := range t.parts {
		spent := spending{t.ask, part.Limit}
		h.spent[spent] -= part.Cost
		keep := h.spent[spent]
		if h.pick(3) { // twice
			if err := h.leave(p, part.Limit, "turn", t.ask, keep, nil); err != nil {
				return err
			}
		}
		if err := h.leave(p, part.Limit, "turn", t.ask, keep, nil); err != nil {
			return err
		}
	}
	if t.id == "" || t.settles || h.pick(3) {
		return nil
	}
	for k, tag := range t.tags {
		t.parts[k].Tag = tag
	}
	return h.book(p, t.call)
}

func (h *history) leave(p *process, limit int, what, which string, cost float64, flow *queuemodel.Flow) error {
	h.trace("%.0f: %s leaves %s %s of limit %d with %v", h.real-startMicros, p.name, what, which, limit, cost)
	who, limits := h.caller(p), h.known(p)
	heads, left, err := h.server.Leave(who, limits, limit, what, which, cost, flow)
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

// comesBack tells what a process has spent while Redis was away. The provider does not hear of
// that: it would not bear it.
func (h *history) comesBack(p *process) error {
	h.counts["away"]++
	who, limits, limit := h.caller(p), h.known(p), h.IntN(len(h.limits))
	micros, used := math.Floor(h.Float64()*1e6), math.Floor(h.Float64()*4)
	spent := queuemodel.Report{Cost: micros, Used: used, Again: math.Mod(micros, 2) == 1}
	heads, _, _, err := h.server.Settle(who, limits, limit, spent)
	if err != nil {
		return err
	}
	modelHeads, _, _ := h.model.Settle(who, limits, limit, spent)
	h.learn(p, heads)
	return h.same("away", heads, modelHeads)
}

func (h *history) settles(p *process) error {
	if h.away && h.pick(2) {
		return h.comesBack(p)
	}
	for i, t := range p.turns {
		if !t.used || !t.settles {
			continue
		}
		p.turns = slices.Delete(p.turns, i, i+1)
		for _, part := range t.parts {
			cost, told := part.Cost, part.Cost // what the limit has of the call, and what the provider has
			for reports := 1 + h.IntN(3); reports > 0; reports-- {
				used := math.Floor(h.Float64() * 2 * cost)
				is := queuemodel.Report{ID: p.name + ":" + strconv.Itoa(t.number), Cost: cost, Used: used, Flow: t.flow, Again: h.estimating && h.pick(3)}
				changed, ok, err := h.settle(p, part, is)
				if err != nil {
					return err
				}
				// What it used more nobody could know when the turns were given that are out.
				if used < part.Cost && ok {
					h.charged(t.call, queuemodel.Part{Limit: part.Limit, Cost: told}, used)
					told = used
				}
				if h.pick(3) { // that it is told twice changes nothing
					if _, _, err := h.settle(p, part, is); err != nil {
						return err
					}
				}
				cost = max(used, 1)
				if is.Again && used < is.Cost {
					cost = max(is.Cost+changed, 1)
				}
				if used < is.Cost && !is.Again { // permits come back once
					break
				}
			}
		}
		return nil
	}
	return nil
}

func (h *history) settle(p *process, part queuemodel.Part, is queuemodel.Report) (float64, bool, error) {
	h.counts["settled"]++
	who, limits := h.caller(p), h.known(p)
	heads, changed, ok, err := h.server.Settle(who, limits, part.Limit, is)
	if err != nil {
		return 0, false, err
	}
	modelHeads, modelChanged, modelOK := h.model.Settle(who, limits, part.Limit, is)
	h.learn(p, heads)
	if (ok != modelOK || changed != modelChanged) && !h.alone {
		return 0, false, fmt.Errorf("settle: %v %v, %v %v in the model", changed, ok, modelChanged, modelOK)
	}
	return changed, ok, h.same("settle", heads, modelHeads)
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
	one.keys = h.keys[6*j : 6*j+6]
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
	every := 0.0
	if int(micros)%3 == 0 { // a hard stop
		every = math.Floor(micros/2) + 1
	}
	heads, left, err := server.Pause(who, limits, micros+1, every)
	if err != nil {
		return err
	}
	modelHeads, modelLeft := model.Pause(who, limits, micros+1, every)
	h.model.Take(j, model)
	h.learnOne(p, j, heads)
	h.void(j, h.real+left)
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
	return h.same("resume", heads, modelHeads)
}

func (h *history) levels(p *process) error {
	j := h.IntN(len(h.limits))
	kind := h.limits[j].kind
	if kind == "s" || kind == "w" {
		return nil
	}
	limits, server, model := h.only(p, j)
	who := h.caller(p)
	permits := float64(h.IntN(4))
	heads, left, err := server.Level(who, limits, text(permits), 0)
	if err != nil {
		return err
	}
	modelHeads, modelLeft := model.Level(who, limits, permits)
	h.model.Take(j, model)
	h.learnOne(p, j, heads)
	h.counts["levels"]++
	if left != modelLeft && !h.alone {
		return fmt.Errorf("level: %v were left, %v in the model", left, modelLeft)
	}
	return h.same("level", heads, modelHeads)
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
	h.counts["set"]++
	r.set = true
	if a != r.inForceA || b < r.inForceB {
		h.shorten(j)
	}
	r.inForceA, r.inForceB = a, b
	// The provider goes by it when the turns that are out are over: in a horizon at the latest. The
	// last of them may be due at that very moment, and is still one of the limit before.
	r.followed = max(r.followed, h.real+bears+min(max(0, who.Way+heads[0].Reach[0]), who.Way+who.Horizon))
	real := r.followed
	h.referee.events = append(h.referee.events, event{at: real, limit: j, change: func(k *bucket) {
		if k.tat < real {
			level := min((real-k.tat)/k.a, k.b, b)
			k.tat = real - level*a
		}
		k.a, k.b = a, b
	}})
	return h.same("set", heads, modelHeads)
}
