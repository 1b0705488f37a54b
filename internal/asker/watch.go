package asker

import "time"

// What happened: see Event.
type What int

// What passes through an Asker.
const (
	Asked   What = iota // a flight is back: N calls asked, and Took is its round trip
	Used                // a turn was used: Took is by how much later than it was due
	Lapsed              // a turn was over when its call came to use it
	Left                // a turn or a place that nobody needs goes back
	Voided              // turns were taken back, by a pause for example: the call asks anew
	Refused             // N calls, by Redis
	Failed              // a script call: Redis is away
)

// Event is something that happened: all of them pass through Config.Watch.
type Event struct {
	What What
	N    int
	Took time.Duration
	Need *Need // of the calls; nil: of several kinds
	Err  error
}

func (a *Asker) watch(e Event) {
	if a.cfg.Watch != nil {
		a.cfg.Watch(e)
	}
}
