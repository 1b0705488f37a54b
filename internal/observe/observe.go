// Package observe lets a test see every turn that package reserve gives, at the moment at
// which its call uses it. It is off unless a test asks; then each turn costs one call more.
package observe

import (
	"sync/atomic"
	"time"
)

// Turn is a turn that a call uses.
type Turn struct {
	Prefix string // of the keys in Redis
	Limit  string // name, and key after a slash
	Cost   int64
	ID     string // of a call that has one

	// Pace is the share, in permits per second, by which a process gives itself the turn: as
	// many processes as it knows of have the same. 0: Redis gave it, or it is of no share.
	Pace float64

	// Unused: the call was not made in time after all, and gives up the turn, which was
	// reported before without this.
	Unused bool

	// Given is the moment at which the turn was found usable: it does not tell when the
	// caller went on. Late is by how much that was after the moment of the turn, as far as
	// the process knew, and Slack for how long after it the turn may be used.
	Given       time.Time
	Late, Slack time.Duration

	// Told is Redis's time when it gave the turn, and Turn the moment of the turn by
	// Redis's clock. Zero: Redis does not know of the turn. The process may take the moment
	// to be earlier, by less than Early: half of the fastest round trips that it has seen.
	Told, Turn time.Time
	Early      time.Duration
}

var hook atomic.Pointer[func(Turn)]

// Turns has f see all turns of this process, from several goroutines at once and with
// locks held: it must not call the limiter. nil ends that.
func Turns(f func(Turn)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// On reports whether somebody looks.
func On() bool { return hook.Load() != nil }

// Report tells of a turn.
func Report(t Turn) {
	if f := hook.Load(); f != nil {
		(*f)(t)
	}
}
