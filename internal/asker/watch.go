package asker

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// What happened: see Event.
type What int

// What passes through an Asker.
const (
	Asked     What = iota // a flight is back: N calls asked, and Took is its round trip
	Used                  // a turn was used: Took is by how much later than it was due
	Lapsed                // a turn was over when its call came to use it
	Left                  // a turn or a place that nobody needs goes back
	Voided                // turns were taken back, by a pause for example: the call asks anew
	Refused               // N calls, by Redis
	Failed                // a script call: Redis is away
	Outlasted             // Redis is back: N permits of Limit were used without it, and Took is for how long
	Moved                 // another process did so to Limit: Text is paused, resumed or limit
	Differs               // another limit than that of this process's is in force under Limit's name: Text
)

// Event is something that happened: all of them pass through Config.Watch.
type Event struct {
	What  What
	N     int
	Took  time.Duration
	Need  *Need // of the calls; nil: of several kinds
	Limit *wire.Limit
	Text  string
	Err   error
}

func (a *Asker) watch(e Event) {
	if e.What == Used {
		e.Need.count(e.N)
	}
	if a.cfg.Watch != nil {
		a.cfg.Watch(e)
	}
}

// count notes that calls have used their turns, for the reports of the process.
func (n *Need) count(calls int) {
	n.Part.count(calls)
	for _, p := range n.More {
		p.count(calls)
	}
}

func (p Part) count(calls int) {
	p.Limit.Calls.Add(int64(calls))
	p.Limit.Permits.Add(int64(calls) * p.Cost)
}
