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
	Used                  // a turn was used: Took is by how much later than it was due, and Waited for how long its call waited
	Lapsed                // a turn was over when its call came to use it
	Left                  // a turn or a place that nobody needs goes back
	Voided                // turns were taken back, by a pause for example: the call asks anew
	Refused               // N calls, by Redis
	Failed                // a script call: Redis is away
	Outlasted             // Redis is back: N permits of Limit were used without it, and Took is for how long
	Moved                 // another process did so to Limit: Text is paused, resumed or limit
	Unfit                 // the limit Text is in force under Limit's name, and of another kind: calls of this process fail
	Rules                 // the limit Text is in force under Limit's name, be it that of this process or not
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

	Waited time.Duration // 0: not at all
	Alone  bool          // without Redis
}

func (a *Asker) watch(e Event) {
	e.count()
	if a.cfg.Watch != nil {
		a.cfg.Watch(e)
	}
}

// used tells of a turn that a call uses.
func (a *Asker) used(need *Need, t *Turn) {
	a.watch(Event{What: Used, N: 1, Took: t.Used.Sub(t.Due), Need: need, Waited: t.Waited, Alone: t.Process == ""})
}
