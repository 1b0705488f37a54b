package headers

import (
	"net/http"
	"strings"
	"time"
)

// providerClock is the provider's clock at the moment of the answer: its Date,
// or now where there is none.
func providerClock(header http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	return now
}

// reset reads when a window begins anew: how long from clock on.
//
// A plain number may mean seconds from now or since 1970, and providers send
// both under one name. No window is as long as the time since 1970, so the size
// tells them apart: from a billion on (the year 2001) it is a moment in seconds,
// from a hundred billion on one in milliseconds, and below it is seconds from
// now. Between a month and the year 2001 nothing makes sense and nothing is read.
func reset(text string, clock time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if n, ok := number(text); ok {
		switch {
		case n <= Longest.Seconds():
			return bounded(n, time.Second), true
		case n < 1e9:
			return 0, false
		case n < 1e11:
			return until(epoch(n, time.Second), clock), true
		case n < 1e14:
			return until(epoch(n, time.Millisecond), clock), true
		}
		return 0, false
	}
	if d, ok := span(text); ok {
		return d, true
	}
	if moment, err := time.Parse(time.RFC3339, text); err == nil {
		return until(moment, clock), true
	}
	if moment, err := http.ParseTime(text); err == nil {
		return until(moment, clock), true
	}
	return 0, false
}

// epoch is n units after 1970. n is below 1e14, so nothing overflows.
func epoch(n float64, unit time.Duration) time.Time {
	perSecond := float64(time.Second / unit)
	whole := int64(n / perSecond)
	return time.Unix(whole, int64((n-float64(whole)*perSecond)*float64(unit)))
}

// span reads a duration with its units: "6m0s", "120ms", "2m59.56s". Days are
// not among them.
func span(text string) (time.Duration, bool) {
	if len(text) > longestNumber {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, false
	}
	return min(d, Longest), true
}
