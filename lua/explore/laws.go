package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/smallredis"
)

// check judges a world by the laws that hold in each state.
func (x *explorer) check(w *world) {
	for _, k := range w.data {
		if k.Ends == 0 {
			w.fail("forgotten", "%s never expires", k.Name)
		}
	}
	for j, l := range x.Limits {
		state := w.data.Find(x.keys[j][0])
		if state == nil {
			continue
		}
		noted := func(field string, word int) float64 {
			words := strings.Fields(valueOf(state, field))
			if word >= len(words) {
				return 0
			}
			n, _ := strconv.ParseFloat(words[word], 64)
			return n
		}
		places, wanted := sumOf(w.data.Find(x.keys[j][1]), 2), noted("queue", 0)
		if places != wanted && places > 0 {
			w.fail("counted", "api%d notes that calls wait for %v permits; its places want %v", j, wanted, places)
		}
		if bookings, wanted := sumOf(w.data.Find(x.keys[j][4]), 1), noted("queue", 4); bookings != wanted && bookings > 0 {
			w.fail("counted", "api%d notes that bookings want %v permits; they want %v", j, wanted, bookings)
		}
		if l.Kind == "s" {
			if held := sumOf(w.data.Find(x.keys[j][2]), 2); held != noted("meter", 0) {
				w.fail("counted", "api%d notes that %v slots are in use; its log has %v", j, noted("meter", 0), held)
			}
		}
		if w.faults == 0 { // after a fault they may belong to a call that does not know it
			x.owned(w, j, 1, 2, 4)
		}
	}
}

// valueOf returns the value of a field of a state, or an empty text.
func valueOf(k *smallredis.Key, field string) string {
	if i := k.Get(field); i != nil {
		return i.Value
	}
	return ""
}

// asMicros returns the number in a field of a state.
func asMicros(k *smallredis.Key, field string) int64 {
	n, _ := strconv.ParseFloat(valueOf(k, field), 64)
	return int64(n)
}

// sumOf adds up the costs of a queue, of bookings or of calls that hold slots. The cost is a word of each
// member. Members with scores below 0 do not count.
func sumOf(k *smallredis.Key, word int) (sum float64) {
	if k == nil {
		return 0
	}
	for _, i := range k.Items {
		if i.Score > 0 {
			n, _ := strconv.ParseFloat(strings.Split(i.Member, ":")[word], 64)
			sum += n
		}
	}
	return sum
}

// owned checks that each place (1), slot (2) or booking (4) at a limit belongs to a call that has it, or to
// a dead process.
func (x *explorer) owned(w *world, limit int, which ...int) {
	for _, k := range which {
		states := map[int][]state{1: {waiting}, 2: {turn, using}, 4: {waiting, booked}}[k]
		found := w.data.Find(x.keys[limit][k])
		if found == nil || k == 2 && x.Limits[limit].Kind != "s" {
			continue
		}
		for _, i := range found.Items {
			words, ok := strings.Split(i.Member, ":"), i.Score < 0
			for c, cl := range w.calls {
				p := w.processes[x.Calls[c].Process]
				mine := words[0] == p.name && words[1] == strconv.FormatInt(cl.number, 10) || k == 4 && words[0] == x.id(c, cl.life)
				ok = ok || mine && slices.Contains(states, cl.state) && !cl.freed || words[0] == p.name && p.dead
			}
			if !ok {
				w.fail("over", "%s has %s, which is over", found.Name, i.Member)
			}
		}
	}
}

// overtakes checks that a call which has its turn now has not overtaken a waiting call that asks on time.
func (x *explorer) overtakes(w *world, c int, sent int64) {
	if len(x.Limits) > 1 || w.faults > 0 || x.Limits[0].Kind == "s" || x.cost(c, 0) > 1 {
		return
	}
	mine := w.calls[c]
	for o, other := range w.calls {
		if other.state == waiting && other.sure && x.cost(o, 0) == 1 && other.asked < mine.asked && other.due > sent && mine.from+tolerated < other.due &&
			x.Calls[o].Flow == x.Calls[c].Flow && x.Calls[o].ID == "" && x.Calls[c].ID == "" {
			w.fail("in order", "call %s has its turn %v before call %s, which came first", name(c), duration(other.due-mine.from), name(o))
		}
	}
}

// clean checks that nothing is left when all calls are over, except what dead processes have left.
func (x *explorer) clean(w *world) {
	for j := range x.Limits {
		x.owned(w, j, 2)
	}
	for _, k := range w.data {
		if life := duration(k.Ends - w.redis()); life > forgetful && !x.can(Set) {
			w.fail("forgotten", "%s lives for %v more", k.Name, life)
		}
	}
}

// forgetful is how long the state of an unused limit may live: slots may be held for a day.
const forgetful = 25 * time.Hour

func count(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
