package provider

import "time"

// Rule is a limit that callers must keep: see TokenBucket, RollingWindow and FixedWindow. A rule
// holds no state, so several providers may share it.
type Rule struct {
	start func(first time.Time) state
}

// state is the state of a rule in one provider. Times are durations since the provider's first call
// and never decrease.
type state interface {
	// wait returns how much too early a call of n permits is: 0 if it may be accepted, Never if it
	// costs more than the rule ever allows. It consumes nothing.
	wait(at time.Duration, n int) time.Duration
	// take consumes n permits, after wait returned 0 for the same arguments.
	take(at time.Duration, n int)
}
