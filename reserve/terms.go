package reserve

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/calendar"
	"github.com/fleetpace/fleetpace/internal/wire"
)

// second is a second in micros.
const second = 1e6

func micros(d time.Duration) float64 { return float64(d / time.Microsecond) }

// form is what a kind of limit is to users: see also wire.Kinds. A and b are the two numbers of its wire.Terms.
type form struct {
	whole   bool // Its permits are a whole number, and it has no burst of its own.
	terms   func(l *Limit) (a, b float64)
	inForce func(l *Limit, a, b float64) (rate float64, burst int)
	with    func(l *Limit, a, b float64)
	check   func(l *Limit) error
	text    func(l *Limit, permits, period string) string
}

var forms = [...]form{
	KindPaced: {
		terms:   func(l *Limit) (a, b float64) { return l.micros(), float64(l.MaxBurst()) },
		inForce: func(_ *Limit, a, b float64) (float64, int) { return second / a, int(b) },
		with: func(l *Limit, a, b float64) {
			l.pace(a)
			l.extra = int(b) - 1
		},
		check: func(*Limit) error { return nil },
		text:  func(l *Limit, permits, period string) string { return permits + "/" + period + l.burstText() },
	},
	KindWarmingUp: {
		terms:   func(l *Limit) (a, b float64) { return l.micros(), micros(l.warm) },
		inForce: func(l *Limit, a, _ float64) (float64, int) { return second / a, l.MaxBurst() },
		with:    func(l *Limit, a, _ float64) { l.pace(a) },
		check: func(l *Limit) error {
			if l.warm < time.Millisecond || l.warm > maxWarmUp || l.warm%time.Microsecond != 0 {
				return invalid("Limit", "warm-up must be whole microseconds from 1ms to 24h, got %v", l.warm)
			}
			return nil
		},
		text: func(l *Limit, permits, period string) string {
			return permits + "/" + period + l.burstText() + " warmup " + l.warm.String()
		},
	},
	KindQuota: {
		whole:   true,
		terms:   func(l *Limit) (a, b float64) { return l.permits, micros(l.margin) },
		inForce: func(l *Limit, a, _ float64) (float64, int) { return a / l.per.Seconds(), int(a) },
		with:    func(l *Limit, a, _ float64) { l.permits, l.extra = a, int(a)-1 },
		check: func(l *Limit) error {
			if l.unit < CalendarMinute || l.unit > CalendarMonth {
				return invalid("Limit", "window of a quota must be a calendar minute, hour, day, week or month, got %v", l.unit)
			}
			if _, err := l.location(); err != nil || l.zone == "Local" {
				return invalid("Limit", "time zone must be one of the time zone database, got %q", l.zone)
			}
			return nil
		},
		text: func(l *Limit, permits, _ string) string {
			text := permits + "/" + l.unit.String() + " quota"
			if l.zone != "" {
				text += " in " + l.zone
			}
			return text + l.marginText()
		},
	},
	KindRolling: {
		whole:   true,
		terms:   func(l *Limit) (a, b float64) { return l.permits, micros(l.per + l.margin) },
		inForce: func(l *Limit, a, b float64) (float64, int) { return a * second / (b - micros(l.margin)), int(a) },
		with: func(l *Limit, a, b float64) {
			l.permits, l.extra, l.per = a, int(a)-1, time.Duration(b)*time.Microsecond-l.margin
		},
		check: func(l *Limit) error {
			if l.permits > maxRolling {
				return invalid("Limit", "a rolling limit allows at most %d permits, got %v", maxRolling, l.permits)
			}
			return nil
		},
		text: func(l *Limit, permits, period string) string {
			return permits + "/" + period + " rolling" + l.marginText()
		},
	},
	KindSlots: {
		whole:   true,
		terms:   func(l *Limit) (a, b float64) { return l.permits, 1 },
		inForce: func(_ *Limit, a, _ float64) (float64, int) { return a, int(a) },
		with:    func(l *Limit, a, _ float64) { l.permits, l.extra = a, int(a)-1 },
		check: func(l *Limit) error {
			if l.permits < 1 || l.permits > maxSlots || l.per != time.Second {
				return invalid("Limit", "slots must be from 1 to %d, got %v", maxSlots, l.permits)
			}
			return nil
		},
		text: func(_ *Limit, permits, _ string) string { return permits + " at once" },
	},
}

// pace sets the rate, by the micros between two permits.
func (l *Limit) pace(a float64) {
	l.permits = short(l.per.Seconds() * second / a)
	for _, p := range periods { // not 0.000277778/s, but 1/hour
		if l.permits < 1 && p.length > l.per {
			l.permits, l.per = short(p.length.Seconds()*second/a), p.length
		}
	}
}

// terms returns the limit as the scripts know it. The limit must be valid.
func (l Limit) terms() wire.Terms {
	t := l.numbers()
	t.Edges = calendar.Edges(t.Calendar)
	return t
}

// calendar is the text of a quota's windows.
func (l *Limit) calendar() string {
	if l.kind != KindQuota {
		return ""
	}
	return l.unit.String() + "/" + cmp.Or(l.zone, "UTC")
}

// as returns the limit with other terms. They may be of another kind: then it has what they say, and nothing else.
func (l Limit) as(t wire.Terms) Limit {
	kind := slices.IndexFunc(wire.Kinds[:], func(k wire.Kind) bool { return k.Letter == t.Kind })
	if kind < 0 || l.kind == Kind(kind) && l.calendar() == t.Calendar {
		return l.with(t.A, t.B)
	}
	of := Limit{kind: Kind(kind), permits: 1, per: time.Second}
	switch of.kind {
	case KindWarmingUp:
		of.warm = time.Duration(t.B) * time.Microsecond
	case KindQuota:
		unit, zone, _ := strings.Cut(t.Calendar, "/")
		for of.unit = CalendarMinute; of.unit < CalendarMonth && of.unit.String() != unit; {
			of.unit++
		}
		of.per, of.margin = lengths[of.unit], time.Duration(t.B)*time.Microsecond
		if zone != "UTC" {
			of.zone = zone
		}
	}
	forms[kind].with(&of, t.A, t.B)
	return of
}

// inForce returns the rate, in permits per second, and the burst of a limit of this kind with the
// terms a and b.
func (l Limit) inForce(a, b float64) (rate float64, burst int) {
	return forms[l.kind].inForce(&l, a, b)
}

// with returns a limit of this kind with other terms; without terms, the limit itself.
func (l Limit) with(a, b float64) Limit {
	if own, of := forms[l.kind].terms(&l); a != 0 && (own != a || of != b && l.kind != KindWarmingUp) {
		forms[l.kind].with(&l, a, b)
	}
	return l
}

// short removes the rounding error of whole micros: 1.5 for 1.49999925.
func short(x float64) float64 {
	six, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err == nil && math.Abs(six-x) <= 1e-6*x {
		return six
	}
	return x
}
