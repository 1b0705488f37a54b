package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// check judges a world by the laws that hold in each state.
func (x *explorer) check(w *world) {
	for _, k := range w.data {
		if k.ends == 0 {
			w.fail("forgotten", "%s never expires", k.name)
		}
	}
	for j, l := range x.Limits {
		state := w.data.find(x.keys[j][0])
		if state == nil {
			continue
		}
		noted := func(field string, word int) float64 {
			i := state.index(field)
			if i < 0 {
				return 0
			}
			n, _ := strconv.ParseFloat(strings.Fields(state.items[i].value)[word], 64)
			return n
		}
		places, wanted := sumOf(w.data.find(x.keys[j][1]), 2), noted("queue", 0)
		if places != wanted && places > 0 {
			w.fail("counted", "api%d notes that calls wait for %v permits; its places want %v", j, wanted, places)
		}
		if bookings, wanted := sumOf(w.data.find(x.keys[j][4]), 1), noted("queue", 4); bookings != wanted && bookings > 0 {
			w.fail("counted", "api%d notes that bookings want %v permits; they want %v", j, wanted, bookings)
		}
		if l.Kind == "s" {
			if held := sumOf(w.data.find(x.keys[j][2]), 2); held != noted("meter", 0) {
				w.fail("counted", "api%d notes that %v slots are in use; its log has %v", j, noted("meter", 0), held)
			}
		}
		if w.faults == 0 { // else it may be of somebody who does not know
			x.owned(w, j, 1, 2, 4)
		}
	}
}

// sumOf adds up the costs of a queue, of bookings or of calls that hold slots: the word of a member that
// says it. Those with scores below 0 do not count.
func sumOf(k *key, word int) (sum float64) {
	if k == nil {
		return 0
	}
	for _, i := range k.items {
		if i.score > 0 {
			n, _ := strconv.ParseFloat(strings.Split(i.member, ":")[word], 64)
			sum += n
		}
	}
	return sum
}

// owned checks that what waits (1), holds slots (2) or is booked (4) at a limit is of calls that do, or of the dead.
func (x *explorer) owned(w *world, limit int, which ...int) {
	for _, k := range which {
		states := map[int][]state{1: {waiting}, 2: {turn, using}, 4: {waiting, booked}}[k]
		found := w.data.find(x.keys[limit][k])
		if found == nil || k == 2 && x.Limits[limit].Kind != "s" {
			continue
		}
		for _, i := range found.items {
			words, ok := strings.Split(i.member, ":"), i.score < 0
			for c, cl := range w.calls {
				p := w.processes[x.Calls[c].Process]
				mine := words[0] == p.name && words[1] == strconv.FormatInt(cl.number, 10) || k == 4 && words[0] == x.id(c, cl.life)
				ok = ok || mine && slices.Contains(states, cl.state) && !cl.freed || words[0] == p.name && p.dead
			}
			if !ok {
				w.fail("over", "%s has %s, which is over", found.name, i.member)
			}
		}
	}
}

// overtakes checks that a call which has its turn now has not overtaken one that waits as it was told.
func (x *explorer) overtakes(w *world, c int, sent int64) {
	if len(x.Limits) > 1 || w.faults > 0 || x.Limits[0].Kind == "s" || x.cost(c, 0) > 1 {
		return
	}
	mine := w.calls[c]
	for o, other := range w.calls {
		if other.state == waiting && other.sure && x.cost(o, 0) == 1 && other.asked < mine.asked && other.due > sent && mine.from+bears < other.due &&
			x.Calls[o].Flow == x.Calls[c].Flow && x.Calls[o].ID == "" && x.Calls[c].ID == "" {
			w.fail("in order", "call %s has its turn %v before call %s, which came first", name(c), duration(other.due-mine.from), name(o))
		}
	}
}

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
	k := w.data.find(x.keys[j][0])
	if k == nil || x.can(QuietFailover) || k.items[max(0, k.index("run"))].value != w.runID() {
		return w.now
	}
	return int64(number(k.items[k.index("epoch")].value)) - w.off
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

// clean checks that nothing is left where all is over, but what the dead have left.
func (x *explorer) clean(w *world) {
	for j := range x.Limits {
		x.owned(w, j, 2)
	}
	for _, k := range w.data {
		if life := duration(k.ends - w.redis()); life > forgetful && !x.can(Set) {
			w.fail("forgotten", "%s lives for %v more", k.name, life)
		}
	}
}

// forgetful is for how long a state may live that nobody uses: slots may be held for a day.
const forgetful = 25 * time.Hour
