package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/internal/wire"
	"github.com/fleetpace/fleetpace/reserve"
)

// judge judges a history that is over.
func (w *world) judge() {
	w.judgeUsed()
	w.judgeAlive()
	w.judgeQuiet()
	w.judgeOrder()
	w.meets()
}

// judgeUsed is the law that permits are used: see [Guarantees].
func (w *world) judgeUsed() {
	for _, m := range w.meters {
		total := time.Duration(0)
		for _, l := range m.lost {
			total += l.lost
		}
		if may := w.mayLose(m); total > may {
			w.violate("used", "%s, %v, lost %v while calls waited, and may lose %v: %s", m.name, m.plan.limit, total, may, m.losses())
		}
	}
}

// losses lists the largest losses.
func (m *meter) losses() string {
	all := slices.Clone(m.lost)
	slices.SortFunc(all, func(a, b loss) int { return int(b.lost - a.lost) })
	var texts []string
	for _, l := range all[:min(4, len(all))] {
		texts = append(texts, fmt.Sprintf("%v until %v", l.lost, l.to))
	}
	return strings.Join(texts, ", ")
}

// stuck reports whether calls wait longer than they may after all events.
func (w *world) stuck() bool {
	over := w.ends() + 10*time.Second
	return w.now > over && w.now > over+w.patience()
}

// judgeAlive is the law that each call has its turn, or an error, after all events.
func (w *world) judgeAlive() {
	var texts []string
	for _, c := range w.calls {
		if c.state == waiting && !c.process.strange {
			texts = append(texts, fmt.Sprintf("call %d of process %d since %v", c.n, c.process.n, c.joined))
		}
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		w.violate("alive", "%d calls wait: %s", len(texts), strings.Join(texts[:min(3, len(texts))], ", "))
	}
}

// patience returns how long a call may wait after all events: until the fleet has recovered, and then until
// all waiting calls have had their turns.
func (w *world) patience() time.Duration {
	const back = 5 * time.Second
	worst := time.Duration(0)
	costs := map[*meter]float64{}
	for i := range w.plan.loads {
		l := &w.plan.loads[i]
		for _, p := range l.parts {
			started := len(w.processes) - len(w.plan.processes) // each has as many callers
			costs[w.meterOf(p)] += float64(l.callers*p.cost) * float64(1+started)
			if l.books > 0 { // calls that come back wait, too
				costs[w.meterOf(p)] += float64(w.ended[booked] * p.cost)
			}
		}
	}
	for m, cost := range costs {
		switch l := m.plan.limit; l.Kind() {
		case reserve.KindQuota:
			worst += time.Duration(2+cost/float64(l.MaxBurst())) * time.Minute
		case reserve.KindSlots:
			worst += time.Duration(2+cost/l.Rate()) * (w.slowest() + 100*time.Millisecond)
		case reserve.KindRolling:
			worst += time.Duration((1 + cost/float64(l.MaxBurst())) * float64(windowOf(l)))
		default:
			worst += time.Duration(cost/l.Rate()*float64(time.Second)) + 2*warmUpOf(l)
		}
	}
	slowest := time.Duration(0)
	for _, p := range w.plan.processes {
		slowest = max(slowest, p.timeout)
	}
	return back + 2*slowest + worst
}

// slowest returns how long a call may take, and for how long it may hold its slots.
func (w *world) slowest() (slowest time.Duration) {
	for i := range w.plan.loads {
		slowest = max(slowest, w.plan.loads[i].lasts)
	}
	for _, p := range w.processes {
		slowest = max(slowest, w.plan.loads[0].lasts+6*p.longest)
	}
	return slowest
}

// judgeQuiet is the law that the fleet makes no more script calls than it has to.
func (w *world) judgeQuiet() {
	calls := 0
	for verb, n := range w.server.calls {
		if verb != "beat" && verb != "settle" {
			calls += n
		}
	}
	seconds := 0.0
	for _, p := range w.processes {
		seconds += (w.now - p.began).Seconds()
	}
	turns, misses := w.ended[made], w.ended[missed]
	gone := w.ended[booked] + w.ended[gaveUp] + w.ended[lost] + w.ended[failed]
	settled := w.server.calls["settle"] * len(w.processes) // each may make the first call of each process ask
	most := 4*float64(turns+misses+gone+settled) + 6*seconds + 50
	if float64(calls) > most {
		w.violate("quiet", "%d script calls, and %.0f are enough for %d turns, %d misses, %d calls that were given up, in %.0f process-seconds: %v",
			calls, most, turns, misses, gone, seconds, w.server.calls)
	}
}

// run is how often a call has asked in a row, each time at the moment of the answer to its last ask.
type run struct {
	n               int
	asked, answered time.Duration
}

// placesOf returns the numbers of the waiting calls for which a batch asks.
func placesOf(b *engine.Batch) (numbers []int64) {
	for i := range b.Items {
		if item := &b.Items[i]; b.Script == engine.Ask && item.Ahead == 0 && item.Parts[0].Tag > 0 {
			numbers = append(numbers, item.Number)
		}
	}
	return numbers
}

// asksAgain is the law that calls which wait do not ask again and again without a reason. If their process has heard
// no news, it knows nothing more than before. Redis may answer that a call waits at another limit now, and may have
// its turn there at once. So it may ask again once for each limit, and no call of a history needs more than three. A call
// may always ask along with another call that has a reason: that costs no trip. From a hard stop on, the law says
// nothing: a new call asks at once there, under the number of a failed call. Such a run lasts only as long as a few
// round trips here. Where Redis answers in no time, it never ends.
func (m *client) asksAgain(b *engine.Batch) {
	const most = 3
	numbers := placesOf(b)
	along := len(numbers) < len(b.Items) || slices.ContainsFunc(m.world.meters, func(of *meter) bool { return len(of.stops) > 0 })
	for _, number := range numbers {
		r := m.runs[number]
		if r == nil {
			r = &run{answered: -1}
			m.runs[number] = r
		}
		along = along || r.answered != m.now || m.newsAt >= r.asked
	}
	for _, number := range numbers {
		r := m.runs[number]
		if r.n++; along {
			r.n = 0
		}
		if r.asked = m.now; r.n == most+1 {
			m.world.violate("quiet", "call %d of process %d has asked %d times, each time at the moment of the answer before", number, m.n, r.n)
		}
	}
}

// isAnswered notes that the calls of a batch have their answers.
func (m *client) isAnswered(b *engine.Batch, err error) {
	for _, number := range placesOf(b) {
		if r := m.runs[number]; r != nil && err == nil {
			r.answered = m.now
		}
	}
}

// standsStill is the law that time passes. The most actions that a history has at one moment are a few thousand: its
// callers begin, and each process hears what the others do.
func (w *world) standsStill() bool {
	const most = 100_000
	if w.still < most {
		return false
	}
	w.violate("quiet", "time stands still: there were %d actions at this moment", w.still)
	return true
}

// overtaken counts a call that has its turn while a call waits whose place was taken well before its own. It counts
// only after some time without events.
func (w *world) overtaken(c *call) {
	const (
		horizon = 600 * time.Millisecond
		settled = 3 * time.Second
		near    = 10 * time.Millisecond // calls of processes with longer trips fall behind
	)
	for _, p := range c.parts {
		if w.plan.limits[p.limit].limit.Kind() != reserve.KindPaced {
			return
		}
	}
	for i := range w.plan.events {
		if e := &w.plan.events[i]; e.at <= w.now && w.now < e.ends()+settled && slices.ContainsFunc(c.parts, e.concerns) {
			return
		}
	}
	if c.load.urgent || slices.ContainsFunc(w.processes, func(p *process) bool { return p.longest > near }) {
		return
	}
	place, next := w.places[c.line][0], map[string]int{}
	came := min(c.came, place)
	for _, o := range w.waiting {
		early := horizon + 4*max(o.process.longest, c.process.longest)
		its := w.places[o.line][next[o.line]]
		next[o.line]++
		if max(its-place, min(w.cameOf(o), its)-came) < -early && o.process.began < place-settled && alike(o, c) {
			w.overtakes++
			w.note("call %d of process %d overtakes %d of process %d", c.n, c.process.n, o.n, o.process.n)
			return
		}
	}
}

// takesPlace notes that a call has joined its line. The calls of a process that need the same permits are a line:
// the first one has the first place. If a call gives up, the line keeps its place, and leaves its last one.
func (w *world) takesPlace(c *call) {
	l := c.load
	c.line = fmt.Sprint(c.process.n, c.parts, c.id, l.flow, l.weight, l.urgent, l.now)
	w.places[c.line] = append(w.places[c.line], w.now)
}

// leavesPlace notes that a call waits no longer.
func (w *world) leavesPlace(c *call, how state) {
	all := w.places[c.line]
	if how == made || how == holding {
		w.places[c.line] = all[1:]
	} else {
		w.places[c.line] = all[:len(all)-1]
	}
}

// cameOf returns when a call first asked. A booked call whose booking was lost with the data is a new call when
// it comes back, as its tag is stored in Redis alone.
func (w *world) cameOf(c *call) time.Duration {
	for i := range w.plan.events {
		e := &w.plan.events[i]
		from := time.Duration(0)
		switch e.what {
		case failOver:
			from = e.at - e.by - 3*c.process.longest // its ask waited for the one before it, and was on its way
		case forget:
			if !slices.ContainsFunc(c.parts, func(p part) bool { return p.limit == e.limit }) {
				continue
			}
		case restart, flush:
		default:
			continue
		}
		if c.back && from <= c.came && c.came <= e.at && e.at <= c.joined {
			return c.joined
		}
	}
	return c.came
}

// alike reports whether two calls wait in one order: the first needs no more than the second.
func alike(o, c *call) bool {
	return len(o.parts) == len(c.parts) && o.load.flow == c.load.flow && o.load.urgent == c.load.urgent && o.load.deadline == 0 && o.load.lapses == 0 &&
		!slices.ContainsFunc(o.parts, func(p part) bool {
			return !slices.ContainsFunc(c.parts, func(q part) bool { return p.limit == q.limit && p.key == q.key && p.cost <= q.cost })
		})
}

// judgeOrder is the law that at most one call in twenty has its turn out of the order in which calls came.
func (w *world) judgeOrder() {
	const part = 0.05
	if most := 3 + part*float64(w.ended[made]); float64(w.overtakes) > most {
		w.violate("order", "%d of %d calls overtook another, and may do so %.0f times", w.overtakes, w.ended[made], most)
	}
}

// judgeClean is the law that nothing is left when all is over: no place, no slot, and no key that does not
// expire.
func (w *world) judgeClean() {
	const longest = 25 * time.Hour
	dead := w.leavesPlaces()
	for _, k := range w.server.Data {
		left := time.Duration(k.Ends-w.server.Now) * time.Microsecond
		switch {
		case strings.HasSuffix(k.Name, ":names"): // it stays, so that other processes find the limits
		case k.Ends == 0 || left > longest:
			w.violate("clean", "key %s expires in %v, and ends at %d, 0 is never", k.Name, left, k.Ends)
		case dead:
		case w.isOld(strings.Replace(k.Name, "-places", "", 1)):
		case strings.Contains(k.Name, "-places"):
			w.violate("clean", "%d calls are left in %s: %v", len(k.Items), k.Name, k.Items)
		case strings.Contains(k.Name, ":s-log") && k.Items[len(k.Items)-1].Score > 0:
			w.violate("clean", "slots are held, and no call holds any: %s, %v", k.Name, k.Items)
		}
	}
}

// leavesPlaces reports whether places may be left when all is over: places of dead processes, or places
// that a copy of an ask took for calls that were over. They are removed when other calls pass them, or
// expire.
func (w *world) leavesPlaces() bool {
	return w.plan.has(requestCopied, requestLate) || slices.ContainsFunc(w.processes, func(p *process) bool { return p.dead })
}

// isOld reports whether the state with a key is one that a fail-over has brought back, and no call has asked for the
// limit since. Nobody can know then that its places are old. They are removed with the next ask, or expire.
func (w *world) isOld(key string) bool {
	return slices.ContainsFunc(w.plan.events, func(e event) bool { return e.what == failOver && w.asked[key] < e.at })
}

// judgeStates is the law that reported states are correct.
func (w *world) judgeStates(all []wire.State, err error) {
	if err != nil {
		w.violate("true", "the state can not be read: %v", err)
		return
	}
	dead := w.leavesPlaces()
	for i, s := range all {
		name, own := w.plan.limits[i].name, termsOf(w.plan.limits[i].limit)
		if s.Waiting > 0 && !dead && !w.isOld(w.key(i)) {
			w.violate("true", "%d calls wait for %s, says the state, and none does", s.Waiting, name)
		}
		if s.A != 0 && s.A != own.A && !w.plan.has(set, replan) {
			w.violate("true", "the limit of %s is %v, says the state, and it is %v", name, s.A, own.A)
		}
		if s.Paused > 0 && !w.plan.has(pause, hardStop) {
			w.violate("true", "%s is paused, says the state, and nobody has paused it", name)
		}
		if len(s.Holders) > 0 && !dead {
			w.violate("true", "%s has %d holders, says the state, and no call holds slots", name, len(s.Holders))
		}
	}
}

// judgeError is the law that errors are correct.
func (w *world) judgeError(c *call, err error) {
	switch {
	case errors.Is(err, reserve.ErrUnavailable) && w.plan.policy == reserve.PolicyFail:
	case errors.Is(err, errKind) && (c.process.strange || slices.ContainsFunc(c.parts, func(p part) bool { return !w.rules(p.limit) })):
	case errors.Is(err, reserve.ErrExhausted) && w.isStopped(c):
	case errors.Is(err, reserve.ErrExceedsBurst) && (c.process.strange || w.plan.has(set, replan)):
	default:
		w.violate("true", "call %d has an error without a reason: %v", c.n, err)
	}
}
