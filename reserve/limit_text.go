package reserve

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/calendar"
	"github.com/fleetpace/fleetpace/internal/wire"
)

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
