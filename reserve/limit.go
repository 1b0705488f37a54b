package reserve

import (
	"fmt"
	"math"
	"time"

	"github.com/fleetpace/fleetpace/lua"
)

// Limit is how often calls may be made: a rate and a burst, or another [Kind] of limit. It is a
// plain value, comparable and safe to copy; the zero Limit is not valid. The functions that build a
// Limit check nothing: [New] and [Limit.Validate] check the whole limit.
//
// The burst is how many permits an idle limit stores, and so how many calls may be made at once
// after an idle time. The default is 1: calls are evenly spaced. If the provider allows a burst,
// set a smaller burst here. The difference is left for network jitter.
type Limit struct {
	permits float64       // per `per`
	per     time.Duration // whole microseconds
	extra   int           // burst beyond the first permit
	kind    Kind
	unit    Calendar      // window of a quota
	zone    string        // time zone of a quota; empty: UTC
	warm    time.Duration // warm-up period
	margin  time.Duration // distance from the edges of windows
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

// Burst returns the limit with another burst, in permits. Quotas, rolling limits and slots cannot
// have a burst: [Limit.Validate] refuses it.
func (l Limit) Burst(permits int) Limit {
	l.extra = permits - 1
	return l
}

// Rate is the limit in permits per second. For a quota it is approximate, because a month counts as
// 30 days. For slots it is their number.
func (l Limit) Rate() float64 { return l.permits / l.per.Seconds() }

// Interval is the time in which one permit becomes available, rounded to a nanosecond. For a quota
// or a rolling limit it is an average. For slots it has no meaning.
func (l Limit) Interval() time.Duration {
	return time.Duration(math.Round(l.micros() * float64(time.Microsecond)))
}

// MaxBurst is how many permits may be used at once, and so the highest cost of a call.
func (l Limit) MaxBurst() int { return l.extra + 1 }

// micros returns the exact interval for the scripts.
func (l Limit) micros() float64 {
	return float64(l.per/time.Microsecond) / l.permits
}

const (
	day      = 24 * time.Hour
	maxRate  = 1_000_000     // per second: the scripts count microseconds
	maxBurst = 1_000_000_000 // permits

	// longest is the longest time that the scripts accept.
	longest     = lua.Longest * time.Microsecond
	longestText = "31 years"
)

// Validate returns nil for a valid limit. Otherwise it returns an [ErrInvalid] that names what is
// wrong and its value.
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
