package main

import "slices"

// troubles adds the faults of servers and processes.
func (b *branch) troubles() {
	b.fault(StepBack, func(w *world) { b.step(w, -5_000_000) }, "Redis's clock steps back by 5 s")
	if b.allKnow() {
		b.fault(StepAhead, func(w *world) { b.step(w, 3_000_000) }, "Redis's clock steps ahead by 3 s")
	}
	if len(b.from.data) > 2 {
		b.fault(Loss, func(w *world) {
			w.data = nil
			if b.told != nil {
				w.commands = append(w.commands, b.wipe())
			}
			b.forgets(w)
			b.beats(w)
		}, "Redis loses all its data")
	}
	switch {
	case !b.mayFail(b.from, Failover) && !b.mayFail(b.from, QuietFailover):
	case !b.from.copied && b.from.data.Find(b.keys[0][0]) == nil: // see doc.go
	case !b.from.copied:
		b.add(func(w *world) { w.replica, w.copied = w.data, true }, "a replica has all that Redis has now, and hears no more")
	default:
		b.fault(Failover, func(w *world) {
			b.takeOver(w)
			w.run++
			w.keeps = w.now + notes
			for p := range w.processes { // a broken connection shows it
				w.processes[p].run = w.runID()
			}
		}, "the replica takes over")
		b.fault(QuietFailover, func(w *world) {
			b.takeOver(w)
			for j := range w.providers { // what the replica has missed is known to the processes alone
				w.providers[j].off = true
			}
		}, "the replica takes over, and nobody can tell it from the server before")
	}
	for p := range b.from.processes {
		if !b.from.processes[p].dead {
			b.fault(Kill, func(w *world) { b.kill(w, p) }, "%s dies", b.from.processes[p].name)
		}
	}
}

// allKnow reports whether all processes know all limits: then they notice that the clock stepped ahead.
func (b *branch) allKnow() bool {
	for _, p := range b.from.processes {
		for _, l := range p.limits {
			if _, version := b.brings(b.from, l, &p); version == 0 && !p.dead {
				return false
			}
		}
	}
	return true
}

// step makes Redis's clock step.
func (x *explorer) step(w *world, micros int64) {
	w.off += micros
	for j := range w.providers {
		p := &w.providers[j]
		p.off = p.off || p.kind == "q" || p.kind == "r"
	}
}

// forgets ends the judgement of limits whose lost usage Redis cannot know.
func (x *explorer) forgets(w *world) {
	w.shaken = true
	for j := range w.providers {
		p := &w.providers[j]
		p.off = p.off || p.kind == "q" || p.kind == "r" || p.kind == "w" || x.can(Set)
	}
}

func (x *explorer) takeOver(w *world) {
	x.forgets(w)
	if x.told != nil {
		w.commands = append(w.commands, x.wipe())
		w.commands = append(w.commands, restore(w.replica)...)
	}
	w.data, w.replica, w.copied = w.replica, nil, false
}

// kill ends a process, with its calls and the messages to it.
func (x *explorer) kill(w *world, p int) {
	w.processes[p].dead = true
	for c := range w.calls {
		cl := &w.calls[c]
		if x.Calls[c].Process != p {
			continue
		}
		for j := range w.providers {
			if cl.state == using && !cl.freed && w.providers[j].kind == "s" {
				w.providers[j].held -= float64(x.cost(c, j))
			}
		}
		*cl = call{state: over}
	}
	w.messages = slices.DeleteFunc(slices.Clone(w.messages), func(m message) bool { return m.process == p && m.answers != nil })
}
