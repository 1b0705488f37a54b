package main

// alive plays on from a world without any more faults. Each waiting call has its turn within a bound, and
// then nothing is left of it.
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

// round does everything that is due. It reports whether a call still waits.
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

// bound returns the moment by which all waiting calls have had their turns, by the paces of the limits.
func (x *explorer) bound(w *world) int64 {
	at, all := w.now, int64(0)
	for c := range w.calls {
		if cl := &w.calls[c]; cl.state == turn || cl.state == booked {
			at = max(at, cl.due, cl.from)
		}
	}
	for j, p := range w.providers {
		if w.shaken { // after the first ask, no turn is due for a second, and no slot is granted for three
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
			all += rounds * int64(x.Limits[j].B)
		case "s":
			all += permits * 600_000
		}
	}
	return max(at, w.paused, w.troubled) + all + horizon + grace
}

// shaken returns when a limit was first asked for after its data was lost, or after a replica took over.
func (x *explorer) shaken(w *world, j int) int64 {
	k := w.data.Find(x.keys[j][0])
	if k == nil || x.can(QuietFailover) || valueOf(k, "run") != w.runID() { // a call learns of it when it asks at its forecast
		return max(w.now, x.soon(w, 0))
	}
	return asMicros(k, "epoch") - w.off
}

// mayCost returns how much longer calls may wait after a fault.
func (x *explorer) mayCost(a Action) (micros int64) {
	switch a {
	case Kill: // a heartbeat finds the dead process, and other calls pass its places
		return dead + 2*beat + grace
	case Loss, Failover, QuietFailover, StepBack, StepAhead:
		return ahead
	}
	for _, l := range x.Limits { // permits that are not used, and a head that does not ask
		if l.Kind == "p" || l.Kind == "w" {
			micros += 3 * int64(max(l.A, x.Sets.A))
		}
	}
	return micros + 2*grace
}
