package reserve

import (
	"cmp"
	"fmt"
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

// periods are the words for a period. The first word of each is printed.
var periods = []struct {
	length time.Duration
	words  []string
}{
	{time.Second, []string{"s", "sec", "second"}},
	{time.Minute, []string{"minute", "m", "min"}},
	{time.Hour, []string{"hour", "h", "hr"}},
	{day, []string{"day", "d"}},
}

// ParseLimit reads the text form of a limit: permits, a slash and a period, then its options:
//
//	100/s   0.2/s   600/minute   1000/hour burst 50   20000/day   5/10s
//	20/s warmup 10s
//	2000/day quota   2000/day quota in Europe/Berlin   100000/month quota margin 1s
//	100/minute rolling   100/10s rolling margin 50ms
//	5 at once
//
// The period is s, sec, second, m, min, minute, h, hr, hour, d, day, or a duration as
// time.ParseDuration reads it. For a quota it is minute, hour, day, week or month. The error is an
// [ErrInvalid] and quotes the text.
func ParseLimit(text string) (Limit, error) {
	l, err := parseLimit(text)
	if err == nil {
		err = l.check()
	}
	if err != nil {
		return Limit{}, fmt.Errorf("reserve: %w (in %q; for example \"100/s\" or \"1000/minute burst 200\")", err, text)
	}
	return l, nil
}

func parseLimit(text string) (Limit, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Limit{}, invalid("Limit", "must read <permits>/<period> or <permits>/<period> burst <permits>")
	}
	if len(words) == 3 && words[1] == "at" && words[2] == "once" {
		n, err := strconv.Atoi(words[0])
		if err != nil {
			return Limit{}, invalid("Limit", "slots must be a whole number, got %q", words[0])
		}
		return Concurrent(n), nil
	}
	if len(words) == 2 && strings.HasPrefix(words[1], "concurren") {
		return Limit{}, invalid("Limit", "slots read \"%s at once\"", words[0])
	}
	rate, period, ok := strings.Cut(words[0], "/")
	if !ok {
		return Limit{}, invalid("Limit", "has no slash between permits and period")
	}
	permits, err := strconv.ParseFloat(rate, 64)
	if err != nil || strings.Trim(rate, "0123456789.eE+-") != "" {
		return Limit{}, invalid("Limit", "permits must be a decimal number, got %q", rate)
	}
	words = words[1:]
	switch {
	case len(words) > 0 && words[0] == "quota":
		unit, err := calendar.ParseUnit(period)
		if err != nil {
			return Limit{}, invalid("Limit", "window of a quota must be minute, hour, day, week or month, got %q", period)
		}
		n, err := wholePermits(permits)
		if err != nil {
			return Limit{}, err
		}
		return parseOptions(Quota(n, Calendar(unit)), words[1:])
	case len(words) > 0 && words[0] == "rolling":
		window, err := parsePeriod(period)
		if err != nil {
			return Limit{}, err
		}
		n, err := wholePermits(permits)
		if err != nil {
			return Limit{}, err
		}
		return parseOptions(Rolling(n, window), words[1:])
	}
	per, err := parsePeriod(period)
	if err != nil {
		return Limit{}, err
	}
	return parseOptions(Limit{permits: permits, per: per}, words)
}

func wholePermits(permits float64) (int, error) {
	if permits < 1 || permits > maxBurst || permits != math.Trunc(permits) {
		return 0, invalid("Limit", "permits of a window must be a whole number from 1 to %d, got %v", maxBurst, permits)
	}
	return int(permits), nil
}

// parseOptions reads the text after the rate: pairs of a word and a value.
func parseOptions(l Limit, words []string) (Limit, error) {
	for len(words) > 0 {
		if len(words) < 2 {
			return Limit{}, invalid("Limit", "%q has no value", words[0])
		}
		name, value := words[0], words[1]
		words = words[2:]
		switch windowed := wire.Kinds[l.kind].Windowed; {
		case name == "burst" && !windowed:
			burst, err := strconv.Atoi(value)
			if err != nil {
				return Limit{}, invalid("Limit", "burst must be a whole number, got %q", value)
			}
			l = l.Burst(burst)
		case name == "warmup" && !windowed:
			d, err := time.ParseDuration(value)
			if err != nil {
				return Limit{}, invalid("Limit", "warmup must be a duration such as 10s, got %q", value)
			}
			l = l.WarmUp(d)
		case name == "in" && l.kind == KindQuota:
			l.zone = value
			if value == "UTC" {
				l.zone = ""
			}
		case name == "margin" && windowed:
			d, err := time.ParseDuration(value)
			if err != nil {
				return Limit{}, invalid("Limit", "margin must be a duration such as 50ms, got %q", value)
			}
			l = l.Margin(d)
		default:
			return Limit{}, invalid("Limit", "must read <permits>/<period> or <permits>/<period> burst <permits>;"+
				" a %v limit has no %q", l.kind, name)
		}
	}
	return l, nil
}

func parsePeriod(text string) (time.Duration, error) {
	for _, p := range periods {
		for _, word := range p.words {
			if text == word {
				return p.length, nil
			}
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, invalid("Limit", "period must be s, minute, hour, day or a duration such as 10s, got %q", text)
	}
	return d, nil
}

// String returns the text form that [ParseLimit] reads; parsing it returns the same limit.
func (l Limit) String() string {
	period := l.per.String()
	for _, p := range periods {
		if l.per == p.length {
			period = p.words[0]
		}
	}
	permits := strconv.FormatFloat(l.permits, 'f', -1, 64)
	if l.kind < 0 || int(l.kind) >= len(forms) {
		return permits + "/" + period
	}
	return forms[l.kind].text(&l, permits, period)
}

func (l *Limit) burstText() string {
	if l.extra == 0 {
		return ""
	}
	return " burst " + strconv.Itoa(l.MaxBurst())
}

func (l *Limit) marginText() string {
	if l.margin == 0 {
		return ""
	}
	return " margin " + l.margin.String()
}

// MarshalText returns the text of [Limit.String], for configuration files and flag.TextVar. The
// error is that of [Limit.Validate].
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText is [ParseLimit] for configuration files and flag.TextVar.
func (l *Limit) UnmarshalText(text []byte) error {
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
