// Package observe lets a test see every turn that package reserve gives, at the moment it
// gives it. It is off unless a test asks; then each turn costs one call more.
package observe

import (
	"sync/atomic"
	"time"
)

// Turn is one turn of a call, or one that a call did not use.
type Turn struct {
	Prefix string // of the keys in Redis
	Limit  string // name, and key after a slash
	Cost   int64

	// Epoch and Number say which permits of the line these are: Number and the Cost - 1
	// before it. Within an epoch no permit is given twice. Number 0: the process gave the
	// turn by itself, as Redis was away, or the limit is one that does not number.
	Epoch, Number int64

	// ID is the name under which Redis keeps the turn; empty where it does not. Who asks
	// again under an ID may be told of the same turn again: it is for one call all the same.
	ID string

	// Given is the moment at which the turn was found usable: it does not tell when the
	// caller went on. Late is by how much that was after the moment of the turn, as far as
	// the process knew, and Slack for how long after it the permits last.
	Given       time.Time
	Late, Slack time.Duration

	// Told is Redis's time when it fixed the turn, and Turn the moment of the turn by
	// Redis's clock. Zero: Redis does not know of the turn.
	Told, Turn time.Time

	// Back is set where a call had left as its turn came: it was reported, and is not used.
	Back bool
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
