package lua

import (
	"slices"
	"strconv"

	"github.com/fleetpace/fleetpace/internal/queuemodel"
)

const never = 1e15 // micros

func (c *call) item() queuemodel.Item {
	return queuemodel.Item{Count: 1, Number: c.number, Settles: c.settles, Now: c.now, Parts: slices.Clone(c.parts),
		ID: c.id, Patience: c.patience, Latest: c.latest, Flow: c.flow}
}

// patient draws how long a call with an ID waits before it is booked; least: at least.
func (h *history) patient(c *call, least float64) {
	c.patience = max(least, []float64{-1, -1, 0, 100000, 500000, 3e6, never}[h.IntN(7)])
	c.latest = never
	if h.pick(4) {
		c.latest = []float64{0, 300000, 3e6}[h.IntN(3)]
	}
}

func (h *history) learnTags(c *call, a queuemodel.Answer) {
	for k := range c.parts {
		c.parts[k].Tag = a.Tags[k]
	}
	c.which = a.Which
}

// books lets a call come back by a moment, or a while earlier or later, or never.
func (h *history) books(c *call, by float64) {
	if h.pick(6) {
		return
	}
	c.retry = by + (h.Float64()-0.7)*1e6
	h.booked = append(h.booked, c)
}

// comeBack is the booked calls that come back now: under their IDs, most of them without
// their tags, to whichever process asks. Some come back twice.
func (h *history) comeBack() (calls []*call) {
	h.booked = slices.DeleteFunc(h.booked, func(c *call) bool {
		if len(calls) > 3 || c.retry > h.real && !h.pick(30) {
			return false
		}
		h.counts["come back"]++
		again := *c
		again.number, again.back, again.parts = h.number, "", slices.Clone(c.parts)
		h.number++
		if !h.pick(3) {
			for k := range again.parts {
				again.parts[k].Tag = 0
			}
		}
		h.patient(&again, float64(-h.IntN(2)))
		calls = append(calls, &again)
		return !h.pick(10)
	})
	return calls
}

// book books a call that waits no longer in a process: at the limit where it had its place,
// and at the others, where it does not count.
func (h *history) book(p *process, c *call) error {
	for k, part := range c.parts {
		if part.Tag == 0 {
			return nil // it never had a tag: it has to ask
		}
		tag := -part.Tag
		if k+1 == max(1, c.which) {
			tag = part.Tag
		}
		which := strconv.Itoa(c.number) + " " + whole(tag) + " " + c.id
		if err := h.leave(p, part.Limit, "book", which, part.Cost, c.flow); err != nil {
			return err
		}
	}
	h.counts["let go"]++
	h.books(c, h.real+2e6*h.Float64())
	return nil
}

// drops ends a booking; some come back nevertheless.
func (h *history) drops(p *process) error {
	i := h.IntN(len(h.booked))
	c := h.booked[i]
	if !h.pick(4) {
		h.booked = slices.Delete(h.booked, i, i+1)
	}
	h.counts["dropped"]++
	for _, part := range c.parts {
		if err := h.leave(p, part.Limit, "drop", c.id, part.Cost, nil); err != nil {
			return err
		}
	}
	return nil
}
