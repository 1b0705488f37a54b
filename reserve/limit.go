package reserve

import (
	"fmt"
	"math"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// Limit is how often calls may be made: a rate and a burst, or another [Kind] of limit. It is a
// plain value, comparable and safe to copy; the zero Limit is not valid. Nothing is checked when a
// Limit is put together: [New] checks it as a whole, and [Limit.Validate] does so on request.
//
// The burst is how many permits an idle limit keeps for later, and so how many calls may leave at
// once after an idle time. It is 1 unless set: calls are evenly spaced then. Where the provider
// allows a burst of its own, set a smaller one here. The difference between the two is what jitter
// on the network may use.
type Limit struct {
	permits float64       // per `per`
	per     time.Duration // whole microseconds
	extra   int           // burst beyond the first permit
	kind    Kind
	unit    Calendar      // of a quota …
	zone    string        // … and where; empty: UTC
	warm    time.Duration // to warm up
	margin  time.Duration // at the edges of windows
}

// PerSecond allows n permits per second. Fractions are fine: 0.2 is one permit
// every five seconds.
func PerSecond(n float64) Limit { return Limit{permits: n, per: time.Second} }

// PerMinute allows n permits per minute, evenly spaced.
func PerMinute(n float64) Limit { return Limit{permits: n, per: time.Minute} }

// PerHour allows n permits per hour, evenly spaced.
func PerHour(n float64) Limit { return Limit{permits: n, per: time.Hour} }

// PerDay allows n permits per 24 hours, evenly spaced.
func PerDay(n float64) Limit { return Limit{permits: n, per: day} }

// Every allows one permit per interval, of whole microseconds.
func Every(interval time.Duration) Limit { return Limit{permits: 1, per: interval} }

// Burst returns the limit with another burst, in permits. A quota, a rolling limit and slots have
// no burst of their own: [Limit.Validate] refuses one.
func (l Limit) Burst(permits int) Limit {
	l.extra = permits - 1
	return l
}

// Rate is the limit in permits per second. Of a quota it is about right, as a month counts as 30
// days. Of slots it is how many there are.
func (l Limit) Rate() float64 { return l.permits / l.per.Seconds() }

// Interval is the time in which one permit becomes available, rounded to a nanosecond. Of a quota
// or a rolling limit it is an average; of slots it means nothing.
func (l Limit) Interval() time.Duration {
	return time.Duration(math.Round(l.micros() * float64(time.Microsecond)))
}

// MaxBurst is how many permits may be used at once, and so the highest cost of a call.
func (l Limit) MaxBurst() int { return l.extra + 1 }

// micros is the exact interval as the scripts take it.
func (l Limit) micros() float64 {
	return float64(l.per/time.Microsecond) / l.permits
}

const (
	day      = 24 * time.Hour
	maxRate  = 1_000_000     // per second: the scripts count microseconds
	maxBurst = 1_000_000_000 // permits

	// longest is the longest time that the scripts take.
	longest     = lua.Longest * time.Microsecond
	longestText = "31 years"
)

// Validate returns nil for a valid limit, and else an [ErrInvalid] that names what is wrong and
// its value.
func (l Limit) Validate() error {
	if err := l.check(); err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	return nil
}

func (l Limit) check() error {
	switch {
	case l == Limit{}:
		return invalid("Limit", "is not set: use for example reserve.PerSecond(10)")
	case l.kind == KindSlots:
		return l.checkKind()
	case math.IsNaN(l.permits) || math.IsInf(l.permits, 0) || l.permits <= 0:
		return invalid("Limit", "rate must be a number above 0, got %v", l.permits)
	case l.kind == KindQuota && l.per == 0:
		return l.checkKind()
	case l.per < time.Microsecond || l.per%time.Microsecond != 0:
		return invalid("Limit", "period must be a whole number of microseconds above 0, got %v", l.per)
	case l.Rate() > maxRate:
		return invalid("Limit", "rate must be at most %d per second, got %v: count in larger units", maxRate, l.Rate())
	case l.MaxBurst() < 1 || l.MaxBurst() > maxBurst:
		return invalid("Limit", "burst must be from 1 to %d permits, got %d", maxBurst, l.MaxBurst())
	case l.micros()*float64(l.MaxBurst()) > lua.Longest:
		return invalid("Limit", "burst of %d permits takes longer than %s to fill at %v", l.MaxBurst(), longestText, l)
	case l.kind == KindRolling && micros(l.per+l.margin) > lua.Longest:
		return invalid("Limit", "window and margin together must be at most %s, got %v and %v", longestText, l.per, l.margin)
	}
	return l.checkKind()
}
