package provider

import "time"

// Rule is one promise that callers must keep: see TokenBucket, RollingWindow
// and FixedWindow. A rule holds no state, so several providers may share it.
type Rule struct {
	start func(first time.Time) state
}

// state is a rule at work inside one provider. Times are durations since the
// provider's first call and never go back.
type state interface {
	// wait is how long a call of n permits is too early: 0 when it may be
	// accepted, Never when it costs more than the rule ever allows. It must not
	// consume anything.
	wait(at time.Duration, n int) time.Duration
	// take consumes n permits, after wait said 0 for the same at and n.
	take(at time.Duration, n int)
}
