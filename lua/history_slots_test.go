package lua

import (
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

// beat tells Redis that the processes live.
func (h *history) beat() {
	h.model.Beaten = h.now()
	if !h.mute {
		h.model.Beaten += 1e15 // they count as having just sent one
	}
	for _, p := range h.processes {
		h.server.client.(*redis.Client).ZAdd(h.server.ctx, h.keys[3], redis.Z{Score: h.model.Beaten, Member: p.name})
	}
}

func (h *history) hasSlots(c *call) bool {
	return slices.ContainsFunc(c.parts, func(part queuemodel.Part) bool { return h.limits[part.Limit].kind == "s" })
}

// what is what a call does, as others see it.
func (c *call) what() string {
	switch {
	case c.id != "":
		return c.id
	case c.flow != nil:
		return c.flow.Name
	default:
		return ""
	}
}

// slots lets the slots of a turn go, or notes them again.
func (h *history) slots(p *process, t *turn, verb string) error {
	for _, part := range t.parts {
		if h.limits[part.Limit].kind != "s" {
			continue
		}
		which := strconv.Itoa(t.number)
		if verb == "keep" {
			which += " " + whole(max(1, h.now()))
		}
		if err := h.leave(p, part.Limit, verb, which, part.Cost, &queuemodel.Flow{Name: t.what()}); err != nil {
			return err
		}
	}
	return nil
}

// over tells the provider that a call that holds slots is done.
func (h *history) over(t *turn) {
	h.holding = slices.DeleteFunc(h.holding, func(o *turn) bool { return o == t })
	for _, part := range t.parts {
		if h.limits[part.Limit].kind == "s" {
			h.referee.events = append(h.referee.events, event{at: h.real, limit: part.Limit, cost: part.Cost, of: t.number, done: true})
		}
	}
}

// ends ends a call that holds slots.
func (h *history) ends() error {
	t := h.holding[h.IntN(len(h.holding))]
	if t.number%4 == 0 && !h.pick(50) { // it takes long
		return nil
	}
	p := t.of
	h.over(t)
	h.counts["done"]++
	if !t.settles {
		p.turns = slices.DeleteFunc(p.turns, func(o *turn) bool { return o == t })
	}
	if h.pick(5) { // twice
		if err := h.slots(p, t, "done"); err != nil {
			return err
		}
	}
	return h.slots(p, t, "done")
}

// killed ends the calls of a process.
func (h *history) killed(p *process) {
	for _, t := range slices.Clone(h.holding) {
		if t.of == p {
			h.over(t)
		}
	}
}

// keeps notes what is held again, some time after data was lost.
func (h *history) keeps() error {
	if h.keepBy == 0 || h.real < h.keepBy {
		return nil
	}
	h.keepBy = 0
	for _, t := range h.holding {
		if err := h.slots(t.of, t, "keep"); err != nil {
			return err
		}
	}
	return nil
}
