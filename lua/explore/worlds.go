package main

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

const ms = time.Millisecond

func paced(interval time.Duration, burst float64) wire.Terms {
	return wire.Terms{Kind: "p", A: float64(interval.Microseconds()), B: burst}
}

func slots(n float64) wire.Terms { return wire.Terms{Kind: "s", A: n, B: 1} }

func limits(all ...wire.Terms) []wire.Terms { return all }

// each returns calls that need one permit, one call for each process.
func each(processes int) (plans []Plan) {
	for p := range processes {
		plans = append(plans, Plan{Process: p})
	}
	return plans
}

func costs(all ...int64) []int64 { return all }

func steps(all ...time.Duration) []time.Duration { return all }

// worlds are the explored worlds. To add one, add a line. A step of 0 is the time until the next moment for
// which a caller waits.
var worlds = []Config{
	{Name: "calm", What: "a paced limit; three processes and nothing goes wrong",
		Limits: limits(paced(100*ms, 1)), Calls: each(3), Lives: 2, Can: UseLate | Leave, Steps: steps(0, 400*ms), Depth: 6, Every: 20},
	{Name: "costs", What: "a paced limit; a process with two calls, and one far away whose call costs 2",
		Limits: limits(paced(100*ms, 2)), Calls: []Plan{{}, {}, {Process: 1, Costs: costs(2)}}, Lives: 2, Can: UseLate | Leave, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
	{Name: "lost", What: "a paced limit; replies are lost and late, and copies arrive late",
		Limits: limits(paced(100*ms, 1)), Calls: each(2), Lives: 2, Can: UseLate | Leave | Oversleep | LoseReply | DelayReply | DelayCopy, Faults: 2, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
	{Name: "pause", What: "a paced limit that is paused and resumed; a reply is lost",
		Limits: limits(paced(100*ms, 2)), Calls: each(2), Lives: 2, Can: UseLate | Pause | LoseReply, Faults: 1, Steps: steps(0, 400*ms), Depth: 6, Every: 20},
	{Name: "set", What: "a paced limit that is set to a third of its pace and a smaller burst, and reset; a call costs 2",
		Limits: limits(paced(100*ms, 3)), Calls: []Plan{{}, {}, {Process: 1, Costs: costs(2)}}, Lives: 2, Can: UseLate | Leave | Set, Sets: paced(300*ms, 2), Steps: steps(0), Depth: 6, Every: 20},
	{Name: "settle", What: "a paced limit; calls of a cost of 2 that turn out to cost 1, or 3, and copies of what tells so arrive late",
		Limits: limits(paced(100*ms, 2)), Calls: []Plan{{Costs: costs(2), Real: 1}, {Process: 1, Costs: costs(2), Real: 3}, {Process: 1}}, Lives: 3, Can: UseLate | LoseReply | DelayCopy, Faults: 1, Steps: steps(0, 150*ms), Depth: 5, Every: 20},
	{Name: "fault", What: "a paced limit; data is lost, a replica takes over, processes die, Redis's clock steps ahead",
		Limits: limits(paced(100*ms, 1)), Calls: each(2), Lives: 3, Can: UseLate | Loss | Failover | Kill | StepAhead, Faults: 2, Steps: steps(0, 400*ms, 1500*ms), Depth: 6, Every: 20},
	{Name: "back", What: "a paced limit; a replica takes over, processes die, Redis's clock steps back",
		Limits: limits(paced(100*ms, 2)), Calls: []Plan{{}, {}, {Process: 1}}, Lives: 2, Can: UseLate | LoseReply | Loss | Failover | Kill | StepBack, Faults: 2, Steps: steps(0, 400*ms, 1500*ms), Depth: 4, Every: 20},
	{Name: "quiet", What: "a paced limit; a replica takes over that cannot be told from the server before",
		Limits: limits(paced(100*ms, 2)), Calls: each(2), Lives: 3, Can: UseLate | QuietFailover | Loss, Faults: 2, Steps: steps(0, 400*ms, 1500*ms), Depth: 6, Every: 20},
	{Name: "gone", What: "a slow paced limit; calls give up and Redis is not told",
		Limits: limits(paced(1000*ms, 1)), Calls: each(3), Lives: 2, Can: Vanish, Faults: 2, Steps: steps(0, 400*ms), Depth: 6, Every: 5},
	{Name: "dead", What: "a slow paced limit; processes die, and Redis's clock steps back",
		Limits: limits(paced(1000*ms, 1)), Calls: each(3), Lives: 2, Can: Kill | StepBack, Faults: 2, Steps: steps(0, 400*ms, 4000*ms), Depth: 5, Every: 5},
	{Name: "slots", What: "one slot; replies are lost, copies arrive late, a process dies",
		Limits: limits(slots(1)), Calls: each(2), Lives: 2, Can: Leave | LoseReply | DelayCopy | Kill, Faults: 1, Steps: steps(100*ms, 1100*ms), Depth: 6, Every: 20},
	{Name: "slots2", What: "two slots, and a call that needs both; replies are late, a process dies, data is lost, a replica takes over",
		Limits: limits(slots(2)), Calls: []Plan{{}, {}, {Process: 1, Costs: costs(2)}}, Lives: 1, Can: Leave | LoseReply | DelayReply | Kill | Loss | Failover, Faults: 1, Steps: steps(400*ms, 4000*ms), Depth: 4, Every: 20},
	{Name: "slots3", What: "one slot; data is lost, a replica takes over, and somebody takes slots away",
		Limits: limits(slots(1)), Calls: each(2), Lives: 2, Can: Leave | Free | Loss | Failover, Faults: 1, Steps: steps(400*ms, 4000*ms), Depth: 6, Every: 20},
	{Name: "slotted", What: "calls that need a slot and a permit; a reply is lost",
		Limits: limits(slots(1), paced(100*ms, 1)), Calls: each(2), Lives: 2, Can: UseLate | Leave | LoseReply, Faults: 1, Steps: steps(0, 400*ms), Depth: 6, Every: 20},
	{Name: "joint", What: "calls that need two paced limits, and calls that need one of them; a reply is lost",
		Limits: limits(paced(100*ms, 1), paced(250*ms, 2)), Calls: []Plan{{}, {Costs: costs(1, 0)}, {Process: 1}}, Lives: 2, Can: UseLate | Leave | LoseReply, Faults: 1, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
	{Name: "warming", What: "a limit that warms up; turns go back, and a reply is lost",
		Limits: limits(wire.Terms{Kind: "w", A: 100_000, B: 500_000}), Calls: each(2), Lives: 2, Can: Leave | LoseReply | Pause, Faults: 1, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
	{Name: "quota", What: "a quota of 2 in a window of 4 s; turns go back, replies are lost, data is lost",
		Limits: limits(wire.Terms{Kind: "q", A: 2, B: 10_000}), Calls: each(2), Lives: 3, Can: UseLate | Leave | LoseReply | Loss, Faults: 1, Steps: steps(0, 1300*ms), Depth: 5, Every: 20},
	{Name: "rolling", What: "two permits in any 0.8 s, and a margin for late calls; turns go back, replies are lost, a pause",
		Limits: limits(wire.Terms{Kind: "r", A: 2, B: 1_000_000, Late: 200_000}), Calls: each(2), Lives: 3, Can: UseLate | Leave | LoseReply | Pause, Faults: 1, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
	{Name: "bookings", What: "a slow paced limit; calls that are booked and come back, or never do",
		Limits: limits(paced(1000*ms, 1)), Calls: []Plan{{ID: "a", Patience: -1}, {ID: "b", Patience: 500 * ms}, {Process: 1}}, Lives: 2, Can: Book | Vanish, Faults: 1, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
	{Name: "flows", What: "a paced limit that two flows share, one of twice the weight",
		Limits: limits(paced(100*ms, 1)), Calls: []Plan{{Flow: wire.Flow{Name: "x", Weight: 1}}, {Flow: wire.Flow{Name: "x", Weight: 1}}, {Process: 1, Flow: wire.Flow{Name: "y", Weight: 2}}}, Lives: 2, Can: Leave | LoseReply, Faults: 1, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
	{Name: "deadlines", What: "a slow paced limit; calls whose deadline is nearer than their turn",
		Limits: limits(paced(1000*ms, 1)), Calls: []Plan{{Within: 300 * ms}, {Process: 1}, {Process: 1, Within: 1500 * ms}}, Lives: 3, Can: UseLate | Leave | LoseReply, Faults: 1, Steps: steps(0, 400*ms), Depth: 5, Every: 20},
}

func worldOf(name string) (Config, bool) {
	for _, c := range worlds {
		if c.Name == name {
			c.Way = 500 * time.Microsecond
			c.Limits = append([]wire.Terms(nil), c.Limits...)
			return c, true
		}
	}
	return Config{}, false
}
