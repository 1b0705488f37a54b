package main

import (
	"context"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// troubles are the faults that a heartbeat finds.
const troubles = Kill | Loss | Failover | QuietFailover | StepBack | StepAhead

// advance lets time pass until a moment: turns are used, heartbeats are sent, and unused turns end.
func (x *explorer) advance(w *world, until int64) {
	for w.now < until && w.broken == nil {
		next := until
		if w.keeps > 0 {
			next = min(next, max(w.keeps, w.now))
		}
		if x.Can&troubles != 0 {
			next = min(next, max(w.beaten+beat, w.now))
		}
		w.now = next
		x.uses(w)
		if w.keeps > 0 && w.now >= w.keeps {
			w.keeps = 0
			x.keepAll(w)
		}
		if x.Can&troubles != 0 && w.now >= w.beaten+beat {
			x.beats(w)
		}
	}
	for c := range w.calls {
		switch cl := &w.calls[c]; {
		case cl.state == turn && cl.due < 0 && w.now > cl.until:
			back := ""
			if cl.alone {
				back = x.call(w, x.Calls[c].Process).Ask()
			}
			x.drop(w, c, back)
			x.unsettle(w)
		case cl.state == waiting && cl.due < w.now:
			x.unsettle(w)
		}
	}
}

// unsettle notes that forecasts may be too late from now on, as calls in front leave the queue or give up
// their turns.
func (x *explorer) unsettle(w *world) {
	for c := range w.calls {
		w.calls[c].sure = false
	}
}

// beats sends the heartbeats of all processes.
func (x *explorer) beats(w *world) {
	w.beaten = w.now
	for p := range w.processes {
		if !w.processes[p].dead {
			x.beat(w, p)
		}
	}
}

func (x *explorer) beat(w *world, p int) {
	pr := &w.processes[p]
	h := wire.Heartbeat{Client: x.server, Channel: "news", Process: pr.name, Dead: duration(dead), Life: x.named[0].Life}
	for j := range x.named {
		h.Names = append(h.Names, wire.Told{Name: &x.named[j]})
	}
	var pulse wire.Pulse
	if !x.talk(w, func() (err error) { pulse, err = wire.Beat(context.Background(), &h); return err }) {
		return
	}
	ranks := make([]int64, len(x.named))
	for j := range ranks {
		ranks[j] = x.named[j].Rank.Load()
	}
	forgot := pr.met && !pulse.Known
	if forgot {
		pr.lost = moment(w.now)
		x.say(w, "%s hears from Redis that it is not known", pr.name)
	}
	if forgot || pr.met && pulse.Dead {
		w.keeps = w.now + notes
	}
	pr.ranks, pr.off, pr.met, pr.run = ranks, pulse.Micros-w.now, true, pulse.Run
}

// keepAll makes all processes report which slots their calls hold.
func (x *explorer) keepAll(w *world) {
	for c := range w.calls {
		cl := &w.calls[c]
		if cl.state != using && (cl.state != turn || cl.due < 0) {
			continue
		}
		for j, l := range x.Limits {
			if cost := x.cost(c, j); l.Kind == "s" && cost > 0 {
				p := x.Calls[c].Process
				x.say(w, "%s tells that %s has its slots", w.processes[p].name, name(c))
				x.leave(w, p, j, wire.Left{Place: cl.number, Cost: cost, Since: w.redis(), Doing: x.doing(w, c)})
			}
		}
	}
}

// doing returns what a call is for, as other people see it while it holds slots.
func (x *explorer) doing(w *world, c int) string {
	if x.Calls[c].ID == "" {
		return x.Calls[c].Flow.Name
	}
	return x.id(c, w.calls[c].life)
}

// uses makes all calls whose turns are due.
func (x *explorer) uses(w *world) {
	for w.broken == nil {
		first := -1
		for c := range w.calls {
			if cl := &w.calls[c]; cl.state == turn && cl.due >= 0 && cl.due <= w.now && (first < 0 || cl.due < w.calls[first].due) {
				first = c
			}
		}
		if first < 0 {
			return
		}
		x.use(w, first)
	}
}

// use makes a call, and makes the providers judge it.
func (x *explorer) use(w *world, c int) {
	cl, plan := &w.calls[c], x.Calls[c]
	if cl.due < w.paused {
		w.fail("safe", "call %s is made %v before the pause ends", name(c), duration(w.paused-cl.due))
	}
	holds := false
	for j := range w.providers {
		cost := x.cost(c, j)
		if cost == 0 {
			continue
		}
		holds = holds || w.providers[j].kind == "s"
		if plan.Real > 0 { // nobody could know the additional cost
			cost = min(cost, plan.Real)
		}
		if err := w.providers[j].judge(float64(cl.due), float64(cost), float64(w.paused)); err != nil {
			w.fail("safe", "api%d refuses call %s: %v", j, name(c), err)
		}
	}
	x.say(w, "call %s is made", name(c))
	switch {
	case holds:
		cl.state = using
	case plan.Real > 0:
		cl.state = spent
	default:
		x.end(w, c)
	}
}
