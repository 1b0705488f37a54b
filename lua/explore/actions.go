package main

import (
	"fmt"
	"slices"
	"time"
)

// branch collects the worlds that may follow a world.
type branch struct {
	*explorer
	from   *world
	goes   bool // the actions continue what has happened in from
	worlds []*world
}

// add adds the world that follows when something happens.
func (b *branch) add(happens func(w *world), format string, args ...any) {
	w := b.from.child()
	if b.goes {
		w.lines, w.commands = slices.Clone(b.from.lines), slices.Clone(b.from.commands)
	}
	b.say(w, format, args...)
	happens(w)
	b.worlds = append(b.worlds, w)
}

// fault is add for an action that is a fault.
func (b *branch) fault(a Action, happens func(w *world), format string, args ...any) {
	if b.mayFail(b.from, a) {
		b.add(func(w *world) {
			w.faults++
			w.troubled = max(w.troubled, w.now) + b.mayCost(a)
			b.unsettle(w)
			happens(w)
		}, format, args...)
	}
}

// next returns the worlds that may follow one.
func (x *explorer) next(w *world) []*world {
	b := &branch{explorer: x, from: w}
	for i := range w.messages {
		b.message(i)
	}
	for p := range w.processes {
		if !w.processes[p].dead {
			b.process(p)
		}
	}
	b.time()
	b.people()
	b.troubles()
	return b.worlds
}

// message makes a message arrive.
func (b *branch) message(i int) {
	m := b.from.messages[i]
	gone := func(w *world) { w.messages = slices.Delete(slices.Clone(w.messages), i, i+1) }
	if m.answers != nil {
		b.arrivals(m, gone, fmt.Sprintf("the late reply to %s arrives", names(m.calls)))
		return
	}
	b.add(func(w *world) {
		gone(w)
		w.troubled = max(w.troubled, w.now) + b.mayCost(DelayCopy)
		b.talk(w, func() error {
			_, err := b.execute(m.request)
			return err
		})
	}, "the late copy of %s's request arrives", b.from.processes[m.process].name)
}

// arrivals adds the worlds in which a reply arrives. Its turns are used early, late, or not at all.
func (b *branch) arrivals(m message, before func(w *world), what string) {
	turns := 0
	b.add(func(w *world) {
		before(w)
		turns = b.arrive(w, m, 0)
	}, "%s", what)
	if turns == 0 {
		return
	}
	if b.can(UseLate) {
		b.add(func(w *world) {
			before(w)
			b.arrive(w, m, UseLate)
		}, "%s, and its turns are used late", what)
	}
	b.fault(Oversleep, func(w *world) {
		before(w)
		b.arrive(w, m, Oversleep)
	}, "%s, and its turns are slept through", what)
}

// process adds what a process and its calls may do.
func (b *branch) process(p int) {
	w, asks := b.from, []int{}
	var fresh []Plan
	for c := range w.calls {
		if b.Calls[c].Process != p {
			continue
		}
		switch cl := &w.calls[c]; cl.state {
		case idle, waiting, booked:
			asks = append(asks, c)
			alike := slices.ContainsFunc(fresh, func(plan Plan) bool { return same(plan, b.Calls[c]) })
			if cl.state == idle {
				fresh = append(fresh, b.Calls[c])
			}
			if cl.state != idle || !alike {
				b.asks(p, []int{c}, false)
			}
		case unsure:
			group := b.together(w, c)
			if group[0] == c {
				b.asks(p, group, true)
			}
		case using:
			b.add(func(w *world) { b.done(w, c) }, "call %s is done", name(c))
		case spent:
			b.add(func(w *world) { b.settle(w, c) }, "call %s tells that it cost %d", name(c), b.Calls[c].Real)
			b.copied(func(w *world) { b.settle(w, c) }, p, "call %s tells that it cost %d", name(c), b.Calls[c].Real)
		}
		b.leaves(p, c)
	}
	if len(asks) > 1 {
		b.asks(p, asks, false)
	}
	if !b.Blind && len(b.strays(w, p)) > 0 {
		b.add(func(w *world) { b.look(w, p) }, "%s looks who holds slots, and lets those go that its calls do not need", w.processes[p].name)
	}
}

// same reports whether two calls need the same, so that it does not matter which one asks first.
func same(a, b Plan) bool {
	return a.ID == "" && b.ID == "" && a.Flow == b.Flow && a.Real == b.Real && a.Within == b.Within && slices.Equal(a.Costs, b.Costs)
}

// asks adds the worlds that follow an ask.
func (b *branch) asks(p int, calls []int, repeat bool) {
	what := b.from.processes[p].name + " asks for " + names(calls)
	if repeat {
		what = b.from.processes[p].name + " has no reply, and repeats its ask for " + names(calls)
	}
	mark := func(w *world, s state) {
		for _, c := range calls {
			w.calls[c].state = s
		}
	}
	var m message
	var sent *world
	b.add(func(w *world) { // in this world the ask has run, and there is no reply
		if repeat {
			b.advance(w, w.now+again)
		}
		m, sent = b.ask(w, p, calls, repeat), w
	}, "%s", what)
	b.worlds = b.worlds[:len(b.worlds)-1]
	if sent.broken != nil {
		b.worlds = append(b.worlds, sent)
		return
	}
	after := &branch{explorer: b.explorer, from: sent, goes: true}
	after.arrivals(m, func(*world) {}, "the reply arrives")
	after.fault(LoseReply, func(w *world) { mark(w, unsure) }, "the reply is lost")
	after.fault(DelayReply, func(w *world) {
		mark(w, coming)
		w.messages = append(w.messages, m)
	}, "the reply is late")
	b.worlds = append(b.worlds, after.worlds...)
	if !repeat {
		b.fault(DelayCopy, func(w *world) {
			b.hold = true
			m := b.ask(w, p, calls, false)
			b.hold = false
			m.answers = nil
			w.messages = append(w.messages, m)
			mark(w, unsure)
		}, "%s, which takes long", what)
	}
}

// copied is fault for a request that arrives, and whose copy arrives later.
func (b *branch) copied(happens func(w *world), p int, format string, args ...any) {
	b.fault(DelayCopy, func(w *world) {
		happens(w)
		w.messages = append(w.messages, message{process: p, request: b.last})
	}, format+", and a copy of that is on its way", args...)
}

// leaves adds the worlds in which a call gives up, or loses its slots.
func (b *branch) leaves(p, c int) {
	cl := &b.from.calls[c]
	switch {
	case cl.state == waiting && b.can(Leave):
		b.add(func(w *world) { b.leavePlace(w, c) }, "call %s leaves its place", name(c))
	case cl.state == turn && b.can(Leave) && cl.alone && (cl.due > b.from.now || cl.due < 0):
		b.add(func(w *world) { b.giveBack(w, c) }, "call %s gives its turn back", name(c))
		b.copied(func(w *world) { b.giveBack(w, c) }, p, "call %s gives its turn back", name(c))
	}
	if cl.state == waiting && b.can(Book) && b.Calls[c].ID != "" {
		b.add(func(w *world) { b.book(w, c) }, "call %s does not wait any longer, and is booked", name(c))
	}
	if cl.state == booked && b.can(Book) {
		b.add(func(w *world) { b.unbook(w, c) }, "call %s will not come back, and its booking ends", name(c))
	}
	if cl.state == using && b.can(Free) && !cl.freed {
		b.add(func(w *world) { b.free(w, c) }, "somebody takes the slots of call %s away", name(c))
	}
	if cl.state == waiting || cl.state == booked {
		b.fault(Vanish, func(w *world) { b.end(w, c) }, "call %s gives up, and Redis is not told", name(c))
	}
}

// time adds the worlds in which time passes: until the next moment for which a caller waits, or for a
// while.
func (b *branch) time() {
	var seen []time.Duration
	for _, step := range b.Steps {
		if step == 0 {
			step = duration(b.soon(b.from, 0) - b.from.now)
		}
		if step > 0 && !slices.Contains(seen, step) {
			seen = append(seen, step)
			b.add(func(w *world) { b.advance(w, w.now+step.Microseconds()) }, "%v pass", step)
		}
	}
}

// soon returns the next moment for which a caller waits. Calls that wait for their turn ask a lead before
// it.
func (x *explorer) soon(w *world, lead int64) int64 {
	best := w.now + max(lead/10, 0)
	for c := range w.calls {
		at := int64(0)
		switch cl := &w.calls[c]; {
		case cl.state == using && lead > 0: // the shortest time
			return w.now + lead/10
		case cl.state == turn && cl.due < 0:
			at = cl.until + 1
		case cl.state == turn:
			at = cl.due
		case cl.state == waiting || cl.state == booked:
			at = cl.due - lead
		}
		if at > w.now && (best <= w.now+lead/10 || at < best) {
			best = at
		}
	}
	return best
}
