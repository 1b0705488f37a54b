package engine

import "time"

// Turn is permits that were spent, and when they may be used.
type Turn struct {
	Due     time.Time // The turn may be used from here …
	Until   time.Time // … until here.
	Process string    // The process that Redis gave it to. Empty: Redis knows nothing of it.
	Number  int64     // In Redis, the number of the call that it was given to.
	Tags    []int64   // The tags of that call, by limit. Nil: it never had a place.

	Given  int64         // When Redis gave it, in micros of Redis. It stands for the tags of a call without any.
	Moment int64         // Due by Redis's clock, in micros.
	Early  time.Duration // Due is at most this much before Moment.
	Ask    string        // The ask that it was given to: process and serial.
	Way    time.Duration // How long its reply took from Redis.

	// How many permits of the first limit that ask had been given with this turn, how many of those
	// were used at the least, and how many that ask was given and did not give back. Alone: that
	// ask was given no other turn, at any limit of this one.
	Permit     int64
	spent, out *int64
	Alone      bool

	Later   bool // It was given ahead: its call has to wait.
	Placed  bool // Its call had a place before …
	Slowest int  // … at the limit of that index, by the last reply.

	Pace   float64       // Of a turn that a process gives itself: permits per second of its share. 0: it has no share.
	Used   time.Time     // When its call used it.
	Waited time.Duration // For how long its call waited. 0: it had its turn at once.
}

// spend notes that the turn is used.
func (t *Turn) spend() {
	if t.spent != nil { // Redis knows of it
		*t.spent = max(*t.spent, t.Permit)
	}
}

// goBack reports whether the turn, of so many permits, may go back, and notes that it does. Turns
// that the same ask was given later go back with it. So none of them may have been used, nor be
// out, as another call may use it yet.
func (t *Turn) goBack(cost int64) bool {
	if t.Ask == "" || *t.spent >= t.Permit || *t.out > t.Permit {
		return false
	}
	*t.out = t.Permit - cost
	return true
}

// kept is a copy.
func (t *Turn) kept() *Turn {
	kept := new(Turn)
	*kept = *t
	return kept
}

// shorten lets the turn be used until a moment at the most, or when it is due. It reports whether
// that is less long than before.
func (t *Turn) shorten(until time.Time) bool {
	until = later(until, t.Due.Add(Tolerance))
	if !until.Before(t.Until) {
		return false
	}
	t.Until = until
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
