package reserve

import (
	"strconv"
	"time"
)

// lane is a name under which this process calls for a line. A line knows the last
// numbered call of each name, so that it can be repeated; so such calls of one lane
// are made one after the other, and each call under way has a lane of its own. Most
// lines need one.
type lane struct {
	member string
	arg    any   // the same, for scripts
	epoch  int64 // of the line when it last answered here …
	seen   int64 // … and Redis's time then; 0: the line may hold something else
	serial int64 // of the last numbered call
	busy   bool
}

func newLane(member string) *lane { return &lane{member: member, arg: member} }

// usedLane takes one that is free and known to the line; nil: there is none. The line
// must be locked.
func (l *line) usedLane() *lane {
	for _, a := range l.lanes {
		if !a.busy && a.seen > 0 {
			a.busy = true
			return a
		}
	}
	return nil
}

// lane takes one that is free. The line must be locked.
func (l *line) lane() *lane {
	if a := l.usedLane(); a != nil {
		return a
	}
	for _, a := range l.lanes {
		if !a.busy {
			a.busy = true
			return a
		}
	}
	a := l.main()
	if a.busy {
		a = newLane(l.core.member + "/" + strconv.Itoa(len(l.lanes)))
		l.lanes = append(l.lanes, a)
	}
	a.busy = true
	return a
}

// main is the lane of calls that have no number.
func (l *line) main() *lane {
	if len(l.lanes) == 0 {
		l.lanes = append(l.lanes, newLane(l.core.member))
	}
	return l.lanes[0]
}

// saw notes that the line answered a call.
func (a *lane) saw(epoch, seen int64) { a.epoch, a.seen = epoch, seen }

// caller is what a process tells of itself, and of what it remembers, with a
// call.
type caller struct {
	reach       time.Duration
	later       time.Duration // by how much later others may have turns that are fixed
	epoch, seen int64
	clock       int64 // what it thinks Redis's time is; 0: not known
	member      string
	serial      int64 // of the call; 0: not numbered
}

// caller begins a call. The line must be locked.
func (l *line) caller(a *lane, serial int64) caller {
	now := time.Now()
	who := caller{
		reach: nothingKnown, epoch: l.memory.epoch,
		clock: l.core.clock.at(now), member: a.member, serial: serial,
	}
	if !l.memory.at.IsZero() {
		who.reach = max(l.memory.reach.Sub(now), nothingKnown)
		who.later = l.memory.later(now)
	}
	if a.seen == 0 || a.epoch != who.epoch { // it is new, or another heard that data was lost
		a = l.main()
	}
	if a.epoch == who.epoch {
		who.seen = a.seen
	}
	return who
}

// stranger begins a call that says nothing of a line, nor of who makes it.
func (c *core) stranger() caller {
	return caller{reach: nothingKnown, clock: c.clock.at(time.Now())}
}
