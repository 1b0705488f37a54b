package world

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Guarantee is what an event may cost a limit at most: permits that are lost while calls wait that
// could be made. The law "used" reads the table, and docs/how-it-works.md prints it.
type Guarantee struct {
	Event string
	What  []string // the events of histories that it is about; none: it is there in each
	Paced Cost
	Why   string
}

// Cost is what is lost of a limit: what comes back in a time.
type Cost struct {
	Time    time.Duration
	Trips   int  // round trips besides
	Timeout bool // and the time-out of the client, after which it asks again
}

// String is a cost as the table shows it.
func (c Cost) String() string {
	var parts []string
	if c.Time > 0 {
		parts = append(parts, fmt.Sprintf("%g s", c.Time.Seconds()))
	}
	if c.Trips > 0 {
		parts = append(parts, fmt.Sprintf("%d round trips", c.Trips))
	}
	if c.Timeout {
		parts = append(parts, "a time-out")
	}
	return strings.Join(parts, " + ")
}

// Guarantees is the table.
var Guarantees = []Guarantee{
	{
		Event: "Calls begin after a rest", Paced: Cost{Trips: 5},
		Why: "The first requests measure the round trip, and a long backlog is answered in parts.",
	},
	{
		Event: "A request or its reply is lost or late, or the connection breaks",
		What:  []string{requestLost, requestLate, cutBefore, cutAfter, replyLost, replyLate},
		Paced: Cost{Time: 250 * time.Millisecond, Timeout: true},
		Why:   "Calls of the request wait for the time-out, and its turns may be lost.",
	},
	{
		Event: "A copy of a request arrives late", What: []string{requestCopied}, Paced: Cost{Time: 500 * time.Millisecond},
		Why: "It spends permits once more.",
	},
	{
		Event: "A process is cut off from Redis", What: []string{partition, hold}, Paced: Cost{Time: time.Second},
		Why: "Turns that it was granted are lost, and its places hold the queue up for a moment.",
	},
	{
		Event: "The round trip grows", What: []string{far}, Paced: Cost{Time: 250 * time.Millisecond, Trips: 3},
		Why: "The first replies come after their turns.",
	},
	{
		Event: "Redis does not answer", What: []string{down, freeze, refuse, full}, Paced: Cost{Time: 2 * time.Second},
		Why: "Counted from its return: processes find out with their next attempt.",
	},
	{
		Event: "Redis has lost its data, or older data replaces it", What: []string{restart, failOver, flush, forget},
		Paced: Cost{Time: 3 * time.Second}, Why: "The same, and the limit begins a second later, behind all turns that were granted.",
	},
	{
		Event: "The clock of Redis steps", What: []string{clockStep}, Paced: Cost{Time: 1500 * time.Millisecond},
		Why: "The limit begins a second later.",
	},
	{
		Event: "News are lost", What: []string{newsLost, newsCut}, Paced: Cost{Time: 500 * time.Millisecond},
		Why: "Calls come back at their forecast.",
	},
	{
		Event: "Redis forgets the scripts", What: []string{scriptFlush}, Paced: Cost{Trips: 2},
		Why: "They are sent again.",
	},
	{
		Event: "A process is killed", What: []string{kill, crashes}, Paced: Cost{Time: time.Second},
		Why: "Turns that it was granted are lost, and its places hold the queue up for a moment.",
	},
	{Event: "A process starts", What: []string{start}, Paced: Cost{Trips: 5}, Why: "Its first requests measure the round trip."},
}

// Table is the table of guarantees as the page shows it.
func Table() string {
	var b strings.Builder
	b.WriteString("| event | paced limit | why |\n|---|---|---|\n")
	for _, g := range Guarantees {
		fmt.Fprintf(&b, "| %s | %v | %s |\n", g.Event, g.Paced, g.Why)
	}
	return b.String()
}

// mayLose is how many permits the events of a history may cost at a limit.
func (w *world) mayLose(m *meter) float64 {
	var trip, timeout time.Duration
	for _, p := range w.processes {
		trip, timeout = max(trip, 2*p.longest), max(timeout, p.timeout)
	}
	took := func(c Cost) time.Duration {
		t := c.Time + time.Duration(c.Trips)*trip
		if c.Timeout {
			t += timeout
		}
		return t
	}
	total := time.Duration(0)
	for _, g := range Guarantees {
		if g.What == nil {
			total += time.Duration(len(w.plan.loads)) * took(g.Paced)
		}
		for i := range w.plan.events {
			if e := &w.plan.events[i]; slices.Contains(g.What, e.what) {
				each := took(g.Paced) // however often it strikes, all is well a while after it has ended
				total += min(time.Duration(w.strikes[e])*each, e.lasts+e.by+each)
			}
		}
	}
	const rounding = 0.002 // of what was used
	return 1 + rounding*m.used + total.Seconds()*m.plan.limit.Rate()
}
