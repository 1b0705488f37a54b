package reserve

import (
	"fmt"
	"math"
	"time"

	"github.com/fleetpace/fleetpace/internal/calendar"
	"github.com/fleetpace/fleetpace/internal/wire"
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

// A Kind is how a limit counts.
type Kind int

// The kinds of limit.
const (
	// KindPaced: permits refill steadily at the rate, up to the burst (token bucket). [PerSecond]
	// and similar functions make it.
	KindPaced Kind = iota

	// KindWarmingUp: a paced limit that is slower after an idle time: see [Limit.WarmUp].
	KindWarmingUp

	// KindQuota: at most N permits per window of the calendar (fixed window): see [Quota].
	KindQuota

	// KindRolling: at most N permits in any window of a length (sliding window): see [Rolling].
	KindRolling

	// KindSlots: at most N calls at the same time, however long they take: see [Concurrent].
	KindSlots
)

// String is the name of the kind: paced, warming up, quota, rolling or slots.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(wire.Kinds) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return wire.Kinds[k].Text
}

// A Calendar is the length of the windows of a [Quota].
type Calendar int

// The windows of a quota, in the time zone of its limit. Weeks are those of ISO 8601 and begin on
// Monday. If clocks are changed, a window is shorter or longer; an hour that the clock shows twice
// is one window.
const (
	CalendarMinute = Calendar(calendar.Minute)
	CalendarHour   = Calendar(calendar.Hour)
	CalendarDay    = Calendar(calendar.Day)
	CalendarWeek   = Calendar(calendar.Week)
	CalendarMonth  = Calendar(calendar.Month)
)

// String is the name of the window: minute, hour, day, week or month.
func (c Calendar) String() string { return calendar.Unit(c).String() }

// lengths are approximate lengths of windows.
var lengths = map[Calendar]time.Duration{
	CalendarMinute: time.Minute,
	CalendarHour:   time.Hour,
	CalendarDay:    day,
	CalendarWeek:   7 * day,
	CalendarMonth:  30 * day,
}

// Quota allows n permits in each window of the calendar, in UTC unless [Limit.In] says otherwise.
// All permits may be used at once when the window begins. To spread them, add a paced limit with
// [All]. If the quota is used up, calls wait for the next window. Permits that were not used in a
// window are lost.
func Quota(n int, each Calendar) Limit {
	return Limit{permits: float64(n), per: lengths[each], extra: n - 1, kind: KindQuota, unit: each}
}

// Rolling allows at most n permits, up to 100,000, in any time span as long as the window, wherever
// it begins. All n may be used at once.
func Rolling(n int, window time.Duration) Limit {
	return Limit{permits: float64(n), per: window, extra: n - 1, kind: KindRolling}
}

// Concurrent allows n calls at once, from 1 to 1,000. A call holds its slot from its turn until it
// releases the slot. So use [Limiter.Acquire], or a package that releases it: worker and transport
// do. Slots of a process that has died, or has sent no heartbeat for 3 s, are free for other calls.
// Together with a rate, in [All], a call that waits for the rate holds no slot.
func Concurrent(n int) Limit {
	return Limit{permits: float64(n), per: time.Second, extra: n - 1, kind: KindSlots}
}

// WarmUp makes a paced limit start slowly after an idle time, for APIs whose caches, connections
// and autoscalers need it. It reaches its rate within the period, which is from 1 ms to 24 h.
//
// It is Guava's SmoothWarmingUp with a cold factor of 3. While nobody calls, permits are stored at
// a constant rate, so that the store is full after one period. The most stored permits are
//
//	threshold + 2*period / (interval + 3*interval), where threshold = period / (2*interval)
//
// Calls use stored permits first. The time per stored permit falls in a straight line: from 3
// intervals when the store is full to 1 interval at the threshold and below it.
//
// As in Guava, and unlike in other limits, a call is let through first, and the calls behind it
// wait for its permits. So the API needs a bucket as large as the most expensive call. The burst
// bounds that cost; it does not allow several calls at once.
func (l Limit) WarmUp(period time.Duration) Limit {
	l.kind, l.warm = KindWarmingUp, period
	return l
}

// In returns a quota whose windows follow a time zone. The zone needs a name from the time zone
// database, such as Europe/Berlin, because all processes of the fleet must find the same zone.
func (l Limit) In(zone *time.Location) Limit {
	l.zone = ""
	if zone != nil && zone != time.UTC {
		l.zone = zone.String()
	}
	return l
}

// Margin keeps a distance from the edges of windows, because clocks differ from the API's and calls
// need time to arrive. A quota grants no permits within the margin after the beginning of a window and
// before its end. The window of a rolling limit is longer by the margin. Half of that is for callers that
// come late for their turns, and half for the way to the API. The margin is at most a quarter of the
// window.
func (l Limit) Margin(d time.Duration) Limit {
	l.margin = d
	return l
}

// Kind is how the limit counts.
func (l Limit) Kind() Kind { return l.kind }

// Window returns the window of a quota that contains a moment. For other limits it returns zero
// times.
func (l Limit) Window(at time.Time) (begin, end time.Time) {
	zone, err := l.location()
	if l.kind != KindQuota || err != nil {
		return time.Time{}, time.Time{}
	}
	return calendar.Unit(l.unit).Window(at, zone)
}

// location of the windows.
func (l Limit) location() (*time.Location, error) {
	if l.zone == "" {
		return time.UTC, nil
	}
	return time.LoadLocation(l.zone)
}

const (
	maxWarmUp  = day
	maxRolling = 100_000 // permits: Redis keeps each call for as long as it counts
	maxSlots   = 1_000
)

// checkKind checks the fields that only some kinds have.
func (l Limit) checkKind() error {
	if l.kind < 0 || int(l.kind) >= len(forms) {
		return invalid("Limit", "kind is not known: %v", l.kind)
	}
	if err := forms[l.kind].check(&l); err != nil {
		return err
	}
	switch windowed := wire.Kinds[l.kind].Windowed; {
	case l.zone != "" && l.kind != KindQuota:
		return invalid("Limit", "only a quota has a time zone, got %q", l.zone)
	case l.margin != 0 && !windowed:
		return invalid("Limit", "only a quota and a rolling limit have a margin, got %v", l.margin)
	case l.margin < 0 || l.margin > l.per/4 || l.margin%time.Microsecond != 0:
		return invalid("Limit", "margin must be whole microseconds from 0 to a quarter of the window, got %v", l.margin)
	case !forms[l.kind].whole:
		return nil
	case float64(int64(l.permits)) != l.permits:
		return invalid("Limit", "permits of a limit of kind %v must be a whole number, got %v", l.kind, l.permits)
	case int(l.permits) != l.MaxBurst():
		return invalid("Limit", "a limit of kind %v must have no burst of its own, got a burst of %d with %v permits",
			l.kind, l.MaxBurst(), l.permits)
	}
	return nil
}
