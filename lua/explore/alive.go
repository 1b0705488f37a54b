package main

// alive plays on from a world, in which nothing goes wrong any more: each call that waits has its turn
// within a bound, and nothing is left of it.
func (x *explorer) alive(from *world) *world {
	w := from.child()
	for len(w.messages) > 0 && w.broken == nil {
		m := w.messages[0]
		w.messages = w.messages[1:]
		if m.answers != nil {
			x.arrive(w, m, 0)
		}
	}
	bound := x.bound(w)
	for w.broken == nil {
		busy := x.round(w)
		x.note(w)
		if !busy {
			x.clean(w)
			return w
		}
		if w.now > bound {
			w.fail("alive", "a call still waits after %v; the bound is %v", duration(w.now-from.now), duration(bound-from.now))
		}
		x.advance(w, x.soon(w, lead))
	}
	return w
}

// lead is how long before its turn a call asks again.
const lead = 100_000

// round lets all do what is due. It reports whether somebody waits still.
func (x *explorer) round(w *world) (busy bool) {
	for p := range w.processes {
		if !x.Blind && !w.processes[p].dead {
			x.look(w, p)
		}
	}
	for c := range w.calls {
		cl := &w.calls[c]
		calls := []int{c}
		switch cl.state {
		case using:
			x.done(w, c)
			continue
		case spent:
			x.settle(w, c)
			continue
		case idle, over:
			continue
		case unsure:
			calls = x.together(w, c)
		case waiting, booked:
			if cl.due-lead > w.now {
				busy = true
				continue
			}
		}
		busy = true
		if cl.state != turn && w.broken == nil {
			p := x.Calls[c].Process
			x.say(w, "%s asks for %s", w.processes[p].name, names(calls))
			if m := x.ask(w, p, calls, cl.state == unsure); w.broken == nil {
				x.arrive(w, m, 0)
			}
		}
	}
	return busy
}

// bound is when all that wait have had their turns, by the paces of the limits.
func (x *explorer) bound(w *world) int64 {
	at, all := w.now, int64(0)
	for c := range w.calls {
		if cl := &w.calls[c]; cl.state == turn || cl.state == booked {
			at = max(at, cl.due, cl.from)
		}
	}
	for j, p := range w.providers {
		if w.shaken { // no turn is due for a second, and no slot is given for three, from the first ask on
			at = max(at, x.shaken(w, j)+ahead+2*ahead*count(p.kind == "s"))
		}
		permits := int64(0)
		for c, cl := range w.calls {
			if cl.state != idle && cl.state != over && cl.state != using {
				permits += x.cost(c, j)
			}
		}
		rounds := permits/int64(p.a) + 2
		switch p.kind {
		case "p":
			at = max(at, int64(p.tat))
			all += permits * int64(max(p.a, x.Sets.A))
		case "w":
			at = max(at, int64(p.tat))
			all += permits * 3 * int64(p.a)
		case "q":
			all += rounds * window
		case "r":
			all += rounds * int64(p.b)
		case "s":
			all += permits * 600_000
		}
	}
	return max(at, w.paused, w.troubled) + all + horizon + grace
}

// shaken is when a limit was asked for first after its data was lost, or a replica took over.
func (x *explorer) shaken(w *world, j int) int64 {
	k := w.data.Find(x.keys[j][0])
	if k == nil || x.can(QuietFailover) { // nobody is told: a call learns of it as it asks when its forecast has come
		return max(w.now, x.soon(w, 0))
	}
	if valueOf(k, "run") != w.runID() {
		return w.now
	}
	return asMicros(k, "epoch") - w.off
}

// mayCost is how much longer calls may wait after something went wrong.
func (x *explorer) mayCost(a Action) (micros int64) {
	switch a {
	case Kill: // it is found out, and its places are passed over
		return dead + 2*beat + grace
	case Loss, Failover, QuietFailover, StepBack, StepAhead:
		return ahead
	}
	for _, l := range x.Limits { // permits that nobody uses, and a head that does not come
		if l.Kind == "p" || l.Kind == "w" {
			micros += 3 * int64(max(l.A, x.Sets.A))
		}
	}
	return micros + 2*grace
}
