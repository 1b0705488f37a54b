package reserve

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// periods are the words for a period, the first of each being the one that is
// printed.
var periods = []struct {
	length time.Duration
	words  []string
}{
	{time.Second, []string{"s", "sec", "second"}},
	{time.Minute, []string{"minute", "m", "min"}},
	{time.Hour, []string{"hour", "h", "hr"}},
	{day, []string{"day", "d"}},
}

// ParseLimit reads the text form of a limit: permits, a slash and a period,
// then, if it is not 1, the burst:
//
//	100/s   0.2/s   600/minute   1000/hour burst 50   20000/day   5/10s
//
// The period is one of s, sec, second, m, min, minute, h, hr, hour, d, day, or
// a duration as time.ParseDuration reads it. The error is an [ErrInvalid] and
// quotes the text.
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
	if len(words) != 1 && (len(words) != 3 || words[1] != "burst") {
		return Limit{}, invalid("Limit", "must read <permits>/<period> or <permits>/<period> burst <permits>")
	}
	rate, period, ok := strings.Cut(words[0], "/")
	if !ok {
		return Limit{}, invalid("Limit", "has no slash between permits and period")
	}
	permits, err := strconv.ParseFloat(rate, 64)
	if err != nil || strings.Trim(rate, "0123456789.eE+-") != "" {
		return Limit{}, invalid("Limit", "permits must be a decimal number, got %q", rate)
	}
	per, err := parsePeriod(period)
	if err != nil {
		return Limit{}, err
	}
	l := Limit{permits: permits, per: per}
	if len(words) == 3 {
		burst, err := strconv.Atoi(words[2])
		if err != nil {
			return Limit{}, invalid("Limit", "burst must be a whole number, got %q", words[2])
		}
		l = l.Burst(burst)
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

// String is the text form that [ParseLimit] reads; the same limit comes back.
func (l Limit) String() string {
	period := l.per.String()
	for _, p := range periods {
		if l.per == p.length {
			period = p.words[0]
		}
	}
	text := strconv.FormatFloat(l.permits, 'f', -1, 64) + "/" + period
	if b := l.MaxBurst(); b != 1 {
		text += " burst " + strconv.Itoa(b)
	}
	return text
}

// MarshalText makes a limit fit for configuration files and flag.TextVar.
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
