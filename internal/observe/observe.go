// Package observe lets a test see every turn that package reserve grants, when its call uses it. It is off
// unless a test turns it on; then each turn costs one more function call.
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
	ID     string // of a call that has an ID

	// Pace is the share of the process, in permits per second, if the process grants itself the turn. All
	// processes that it knows have the same share. 0: Redis granted the turn, or the turn belongs to no
	// share.
	Pace float64

	// Unused says that the call was not made in time after all, and gives up the turn. The turn was
	// reported before without Unused.
	Unused bool

	// Given is when the turn was found usable; the caller may continue later. Late is how long that was
	// after the moment of the turn, as far as the process knew. Slack is how long after its moment the turn
	// may be used.
	Given       time.Time
	Late, Slack time.Duration

	// Told is Redis's time when it granted the turn, and Turn is the moment of the turn by Redis's clock.
	// Zero: Redis does not know the turn. The process may take the moment to be earlier by less than Early,
	// which is half of its fastest round trip.
	Told, Turn time.Time
	Early      time.Duration
}

var hook atomic.Pointer[func(Turn)]

// Turns makes f see all turns of this process, from several goroutines at once and with locks held: f must
// not call the limiter. Nil ends that.
func Turns(f func(Turn)) {
	if f == nil {
		hook.Store(nil)
		return
	}
	hook.Store(&f)
}

// On reports whether a test observes turns.
func On() bool { return hook.Load() != nil }

// Report passes a turn to the observer.
func Report(t Turn) {
	if f := hook.Load(); f != nil {
		(*f)(t)
	}
}
