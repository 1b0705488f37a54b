package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// eachLimit calls f with the limits that a call needs.
func (x *explorer) eachLimit(c int, f func(limit int, cost int64)) {
	for j := range x.Limits {
		if cost := x.cost(c, j); cost > 0 {
			f(j, cost)
		}
	}
}

func (x *explorer) leavePlace(w *world, c int) {
	cl := w.calls[c]
	x.end(w, c)
	x.eachLimit(c, func(j int, cost int64) {
		x.leave(w, x.Calls[c].Process, j, wire.Left{Place: cl.number, Cost: cost, Flow: x.Calls[c].Flow})
	})
}

func (x *explorer) giveBack(w *world, c int) {
	cl, p := w.calls[c], x.Calls[c].Process
	x.end(w, c)
	asked := wire.Caller{Process: w.processes[p].name, Serial: cl.serial}.Ask()
	x.eachLimit(c, func(j int, cost int64) {
		if x.Limits[j].Kind == "s" {
			x.leave(w, p, j, wire.Left{Place: cl.number, Cost: cost, Done: true, Doing: x.doing(w, c)})
			return
		}
		x.leave(w, p, j, wire.Left{Turns: asked})
	})
}

// book books a waiting call under its ID.
func (x *explorer) book(w *world, c int) {
	cl := &w.calls[c]
	x.eachLimit(c, func(j int, cost int64) {
		if cl.tags[j] > 0 {
			x.leave(w, x.Calls[c].Process, j, wire.Left{Place: cl.number, Cost: cost, Flow: x.Calls[c].Flow, ID: x.id(c, cl.life), Tag: cl.tags[j]})
		}
	})
	cl.state, cl.number, cl.tags, cl.due = booked, cl.number+50, [2]int64{}, max(cl.due, w.now)
}

func (x *explorer) unbook(w *world, c int) {
	id := x.id(c, w.calls[c].life)
	x.end(w, c)
	x.eachLimit(c, func(j int, cost int64) { x.leave(w, x.Calls[c].Process, j, wire.Left{ID: id, Cost: cost}) })
}

// done ends a call that holds slots.
func (x *explorer) done(w *world, c int) {
	cl, doing := w.calls[c], x.doing(w, c)
	x.end(w, c)
	x.eachLimit(c, func(j int, cost int64) {
		if x.Limits[j].Kind == "s" {
			if !cl.freed {
				w.providers[j].held -= float64(cost)
			}
			x.leave(w, x.Calls[c].Process, j, wire.Left{Place: cl.number, Cost: cost, Done: true, Doing: doing})
		}
	})
}

// free takes the slots of a call away. Other calls may have them, though the call continues.
func (x *explorer) free(w *world, c int) {
	cl := &w.calls[c]
	cl.freed = true
	x.eachLimit(c, func(j int, cost int64) {
		if x.Limits[j].Kind == "s" {
			w.providers[j].held -= float64(cost)
			x.leave(w, x.Calls[c].Process, j, wire.Left{Place: cl.number, Cost: cost, Free: true, Doing: x.doing(w, c)})
		}
	})
}

// settle reports what a call cost in the end.
func (x *explorer) settle(w *world, c int) {
	id := wire.CallID(w.processes[x.Calls[c].Process].name, w.calls[c].number)
	x.end(w, c)
	x.eachLimit(c, func(j int, cost int64) {
		x.verb(w, x.Calls[c].Process, []int{j}, func(call *wire.Call) (wire.Reply, error) {
			reply, _, err := wire.Settle(context.Background(), call, []wire.Used{{ID: id, Cost: cost, Used: x.Calls[c].Real, Flow: x.Calls[c].Flow}})
			return reply, err
		})
	})
}

// together returns the calls of one ask that has no reply: the calls that asked together with one call.
func (x *explorer) together(w *world, c int) (calls []int) {
	for o := range w.calls {
		if x.Calls[o].Process == x.Calls[c].Process && w.calls[o].state == unsure && w.calls[o].serial == w.calls[c].serial {
			calls = append(calls, o)
		}
	}
	return calls
}

// stray is a call that holds slots in Redis, and does not need them.
type stray struct {
	limit        int
	number, cost int64
	doing        string
}

// strays returns the stray calls of a process. A late copy or a lost message leaves them.
func (x *explorer) strays(w *world, p int) (all []stray) {
	for j, l := range x.Limits {
		log := w.data.Find(x.keys[j][2])
		if l.Kind != "s" || log == nil {
			continue
		}
		for _, i := range log.Items {
			words := strings.SplitN(i.Member, ":", 4)
			number, _ := strconv.ParseInt(words[1], 10, 64)
			cost, _ := strconv.ParseInt(words[2], 10, 64)
			if i.Score > 0 && words[0] == w.processes[p].name && !x.needs(w, p, number) {
				all = append(all, stray{j, number, cost, words[3]})
			}
		}
	}
	return all
}

// needs reports whether a process has a call with a number that holds slots, or may hold some.
func (x *explorer) needs(w *world, p int, number int64) bool {
	for c, cl := range w.calls {
		if x.Calls[c].Process == p && cl.number == number {
			return cl.state == using || cl.state == unsure || cl.state == coming || cl.state == turn && cl.due >= 0
		}
	}
	return false
}

// look makes a process release slots that its calls do not need.
func (x *explorer) look(w *world, p int) {
	for _, s := range x.strays(w, p) {
		x.leave(w, p, s.limit, wire.Left{Place: s.number, Cost: s.cost, Done: true, Doing: s.doing})
	}
}
