package world

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// Guarantee is the most that an event may cost a limit: the permits that are lost while calls wait that
// could be made. The law "used" reads the table, and docs/how-it-works.md prints it.
type Guarantee struct {
	Event string
	What  []string // the events of the histories to which it applies; none: it applies to each
	Step  int      // of a clock: 1 ahead, -1 back
	Rate  Cost     // for paced limits and limits that warm up
	Count Cost     // for quotas and rolling limits
	Slots Cost
	Why   string
}

// Cost is a time. As many permits are lost as the limit allows in this time.
type Cost struct {
	Time    time.Duration
	Trips   int           // the round trips in addition
	Windows int           // windows of a quota in addition
	Bucket  bool          // in addition what a bucket holds, if processes used permits without Redis: see away in settle.lua
	Timeout bool          // in addition the timeout of the client, after which it asks again
	Turn    bool          // the permits of a turn, instead of a time
	Granted bool          // in addition the permits of the turns that a process was granted and did not use
	Largest bool          // in addition those of the largest of these turns: others fit into the time
	Each    time.Duration // for each of many that follow each other …
	Part    float64       // … at most this part of the time
}

// String is a cost as the table shows it.
func (c Cost) String() string {
	var parts []string
	if c.Time > 0 {
		parts = append(parts, fmt.Sprintf("%g s", c.Time.Seconds()))
	}
	if c.Turn {
		parts = append(parts, "the permits of its turn")
	}
	if c.Trips > 0 {
		parts = append(parts, fmt.Sprintf("%d round trips", c.Trips))
	}
	if c.Timeout {
		parts = append(parts, "a timeout")
	}
	if c.Windows > 0 {
		parts = append(parts, fmt.Sprintf("%d windows of a quota", c.Windows))
	}
	if c.Bucket {
		parts = append(parts, "a bucket where calls went on")
	}
	if c.Granted {
		parts = append(parts, "its turns")
	}
	if c.Largest {
		parts = append(parts, "its largest turn")
	}
	if c.Part > 0 {
		parts = append(parts, fmt.Sprintf("%g s for each, at most %g %% of the time", c.Each.Seconds(), 100*c.Part))
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, " + ")
}

func seconds(s float64) Cost { return Cost{Time: time.Duration(s * float64(time.Second))} }

// The loss while processes crash again and again. Two healthy processes have 0.97 of the limit at a crash
// per second, and 0.8 of it at ten.
const crash, crashing = 30 * time.Millisecond, 0.2

// gone says why a process that is gone for a while costs permits.
const gone = "Turns that it was granted are lost, at most one for each of its calls, and its places block the queue for a moment. A new window grants many turns at once. Slots are free after 3 to 5 s."

// Guarantees is the table.
var Guarantees = []Guarantee{
	{
		Event: "Calls begin after a rest", Rate: Cost{Trips: 6}, Count: Cost{Trips: 6}, Slots: Cost{Trips: 6},
		Why: "The first requests measure the round trip, and a long backlog is answered in parts.",
	},
	{
		Event: "A process prefetches permits (`Config.Prefetch`), and its calls end",
		Why:   "The process returns these permits, or no other call wants them. If it is killed, they are lost.",
	},
	{
		Event: "A call gives up after its turn was granted, or comes after the turn has expired", Rate: Cost{Turn: true}, Count: Cost{Turn: true},
		Why: "The next call of its process that needs the same permits gets the turn. Otherwise Redis takes the permits back, unless it has granted others since. Calls of several limits wait for them at all their limits.",
	},
	{
		Event: "A request or its reply is lost or late, or the connection breaks",
		What:  []string{requestLost, requestLate, cutBefore, cutAfter, replyLost, replyLate},
		Rate:  Cost{Time: 250 * time.Millisecond, Timeout: true}, Count: Cost{Time: 250 * time.Millisecond, Timeout: true, Granted: true},
		Slots: Cost{Time: time.Second, Timeout: true},
		Why:   "Calls of the request wait for the timeout, and its turns may be lost. Permits that a report gives back may count once more if its call reports again.",
	},
	{
		Event: "A copy of a request arrives late", What: []string{requestCopied}, Rate: seconds(0.5), Count: seconds(0.5), Slots: seconds(1),
		Why: "It spends permits once more.",
	},
	{
		Event: "A process is cut off from Redis", What: []string{partition, hold},
		Rate: Cost{Time: time.Second, Timeout: true}, Count: Cost{Time: time.Second, Timeout: true}, Slots: Cost{Time: 5 * time.Second, Timeout: true},
		Why: gone,
	},
	{
		Event: "A process is suspended for a while", What: []string{stop}, Rate: Cost{Time: time.Second, Largest: true}, Count: Cost{Time: time.Second, Granted: true}, Slots: seconds(5),
		Why: gone,
	},
	{
		Event: "The round trip grows", What: []string{far}, Rate: Cost{Time: 250 * time.Millisecond, Trips: 3},
		Count: Cost{Time: 250 * time.Millisecond, Trips: 3}, Slots: Cost{Time: 250 * time.Millisecond, Trips: 3},
		Why: "The first replies come after their turns.",
	},
	{
		Event: "Redis does not answer", What: []string{down, freeze, refuse, full}, Rate: Cost{Time: 2 * time.Second, Bucket: true}, Count: seconds(2), Slots: seconds(3),
		Why: "Counted from its return: processes find out with their next attempt. After calls have gone on by the policy `local`, the bucket begins empty.",
	},
	{
		Event: "Redis has lost its data, or older data replaces it", What: []string{restart, failOver, flush, forget, forgetQueue},
		Rate: seconds(3), Count: seconds(3), Slots: seconds(7),
		Why: "Counted from its return. A limit begins a second later, behind all turns that were granted, and slots after 3 s.",
	},
	{
		Event: "The clock of Redis steps ahead", What: []string{clockStep}, Step: 1, Rate: seconds(1.5), Count: seconds(1.5), Slots: seconds(1.5),
		Why: "The limit begins a second later.",
	},
	{
		Event: "The clock of Redis steps back", What: []string{clockStep}, Step: -1, Rate: seconds(1.5), Count: Cost{Time: 1500 * time.Millisecond, Windows: 2}, Slots: seconds(1.5),
		Why: "The limit begins a second later. A quota grants no more in an earlier window, and the next window counts what was used in it before the step.",
	},
	{
		Event: "Messages on the channel are lost", What: []string{newsLost, newsCut}, Rate: seconds(0.5), Count: seconds(0.5), Slots: seconds(1),
		Why: "Calls ask again at their forecast, and calls that wait for slots look for free ones.",
	},
	{
		Event: "Redis forgets the scripts, or lacks those of another version", What: []string{scriptFlush}, Rate: Cost{Trips: 2}, Count: Cost{Trips: 2}, Slots: Cost{Trips: 2},
		Why: "They are sent again.",
	},
	{
		Event: "A process is killed", What: []string{kill}, Rate: Cost{Time: time.Second, Largest: true}, Count: Cost{Time: time.Second, Granted: true}, Slots: seconds(5),
		Why: gone,
	},
	{
		Event: "Processes start and are killed soon after, again and again", What: []string{crashes},
		Rate: Cost{Time: time.Second, Each: crash, Part: crashing}, Count: Cost{Time: time.Second, Each: crash, Part: crashing}, Slots: seconds(5),
		Why: "As when one is killed.",
	},
	{
		Event: "A process starts", What: []string{start, other}, Rate: Cost{Trips: 5}, Count: Cost{Trips: 5}, Slots: Cost{Trips: 5},
		Why: "Its first requests measure the round trip.",
	},
	{
		Event: "A pause or a hard stop ends, or is ended", What: []string{pause, hardStop, resume}, Rate: seconds(0.25), Count: seconds(0.25), Slots: seconds(0.25),
		Why: "Redis notifies the waiting calls.",
	},
	{
		Event: "The limit changes", What: []string{set, reset, replan}, Rate: Cost{Trips: 3}, Count: Cost{Trips: 3}, Slots: Cost{Trips: 3},
		Why: "No turn is lost. The new limit is in force within half a second, and a plan of another kind after a second.",
	},
}

// Table is the table of guarantees as the page shows it.
func Table() string {
	var b strings.Builder
	b.WriteString("| event | a rate | a quota or rolling limit | slots | why |\n|---|---|---|---|---|\n")
	for _, g := range Guarantees {
		fmt.Fprintf(&b, "| %s | %v | %v | %v | %s |\n", g.Event, g.Rate, g.Count, g.Slots, g.Why)
	}
	return b.String()
}

// of returns the cost for a kind of limit.
func (g *Guarantee) of(k reserve.Kind) Cost {
	switch k {
	case reserve.KindQuota, reserve.KindRolling:
		return g.Count
	case reserve.KindSlots:
		return g.Slots
	}
	return g.Rate
}

// covers reports whether an event may cost what the row says.
func (g *Guarantee) covers(e *event) bool {
	return slices.Contains(g.What, e.what) && g.Step*cmp.Compare(e.by, 0) >= 0
}

// mayLose returns the most that the events of a history may cost at a limit.
func (w *world) mayLose(m *meter) time.Duration {
	var trip, timeout time.Duration
	for _, p := range w.processes {
		trip, timeout = max(trip, 2*p.longest), max(timeout, p.timeout)
	}
	kind := m.plan.limit.Kind()
	total := time.Duration(0)
	for i := range Guarantees {
		g := &Guarantees[i]
		c := g.of(kind)
		each := c.Time + time.Duration(c.Trips)*trip
		if c.Timeout {
			each += timeout
		}
		if c.Bucket && w.plan.policy == reserve.PolicyLocal {
			each += time.Duration(float64(m.plan.limit.MaxBurst()) / m.plan.limit.Rate() * float64(time.Second))
		}
		if q, counts := m.provider.(*quota); counts {
			each += time.Duration(c.Windows) * q.window
		}
		if c.Turn {
			for _, o := range w.together(m) {
				total += time.Duration((o.givenUp + o.lapsed) / rateOf(o.plan.limit) * float64(time.Second))
			}
		}
		if g.What == nil {
			total += time.Duration(w.rests(time.Duration(c.Trips)*trip)) * each
		}
		if slices.Contains(g.What, scriptFlush) && w.plan.isMixed() {
			total += each
		}
		for i := range w.plan.events {
			if e := &w.plan.events[i]; g.covers(e) && e.concerns(m.part) {
				// However often it strikes, the limit works again a while after it has ended.
				n, lasts := time.Duration(w.strikes[e]), e.ends()-e.at
				if c.Part > 0 && w.plan.remembers() == 1 && len(w.plan.limits) > 1 { // calls of several limits do not come back sooner
					total += n * each
					continue
				}
				if c.Part > 0 {
					total += each + min(n*c.Each, time.Duration(c.Part*float64(lasts)))
					continue
				}
				total += min(n*each, lasts+each)
			}
		}
	}
	if kind == reserve.KindRolling || kind == reserve.KindQuota {
		total += time.Duration(m.gone / rateOf(m.plan.limit) * float64(time.Second))
	}
	if kind == reserve.KindPaced || kind == reserve.KindWarmingUp {
		total += time.Duration(m.largest / rateOf(m.plan.limit) * float64(time.Second))
	}
	usual := time.Duration(0)
	for _, o := range w.together(m) {
		usual = max(usual, w.usual(o, trip))
	}
	return total + usual
}

// together returns a meter, and those of the limits that calls need with it. While another limit lacks a permit that
// was lost, no call that needs both can be made, and both count as lost. Only calls of paced limits count: see allPaced.
func (w *world) together(m *meter) (all []*meter) {
	paced := func(of *meter) bool { return of.plan.limit.Kind() == reserve.KindPaced }
	for _, o := range w.meters {
		if o == m || paced(m) && paced(o) && slices.ContainsFunc(w.plan.loads, func(l load) bool {
			needs := func(of *meter) bool {
				return slices.ContainsFunc(l.parts, func(p part) bool { return w.meterOf(p) == of })
			}
			return needs(m) && needs(o)
		}) {
			all = append(all, o)
		}
	}
	return all
}

// rests returns how often calls begin after a rest: those of each load, and of some processes. A process has to measure
// the round trip although others have measured theirs before its first call.
func (w *world) rests(measured time.Duration) int {
	n := len(w.plan.loads)
	for _, p := range w.processes[:len(w.plan.processes)] {
		if slices.ContainsFunc(w.processes, func(o *process) bool { return o.called > 0 && o.called+measured < p.called }) {
			n++
		}
	}
	return n
}

// usual returns what is lost without events. Turns are a little late. A slot that is released is in use
// again after three messages: the release, an ask, and its reply.
func (w *world) usual(m *meter, trip time.Duration) time.Duration {
	l := m.plan.limit
	switch l.Kind() {
	case reserve.KindSlots:
		return time.Duration(float64(6*trip+20*time.Millisecond) * m.used / l.Rate())
	case reserve.KindWarmingUp:
		return 2 * warmUpOf(l)
	case reserve.KindRolling, reserve.KindQuota:
		return time.Duration((3 + 0.003*m.used) / rateOf(l) * float64(time.Second))
	}
	rounding := 0.003 * m.used
	if len(w.plan.limits) > 1 { // a burst of 1 is not used to the full if calls need several limits: see docs/several.md
		rounding = max(0.12*m.used, m.parted)
	}
	return time.Duration((3 + rounding) / l.Rate() * float64(time.Second))
}
