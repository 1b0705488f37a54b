package headers

import (
	"net/http"
	"strings"
	"time"
)

// providerClock returns the provider's time at the moment of the response: its Date or, without a
// Date, now.
func providerClock(header http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		return date
	}
	return now
}

// waitOf reads the end of a window, or when to try again, as a duration from clock on. All headers
// are read alike, because providers send every form under every name.
//
// A plain number may mean seconds from now or since 1970. No window is as long as the time since
// 1970, so the size decides. From a billion on (the year 2001) it is a moment in seconds, from a
// hundred billion on a moment in milliseconds. Below a month it is seconds from now. Numbers in
// between make no sense and are ignored.
func waitOf(text string, clock time.Time) (time.Duration, bool) {
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
	if moment, ok := date(text); ok {
		return until(moment, clock), true
	}
	return 0, false
}

// zones are the names that RFC 822 gives to time zones, and other names of the same meaning. Other
// names are ambiguous: CST and IST mean several zones.
var zones = map[string]string{
	"GMT": "+0000", "UTC": "+0000", "UT": "+0000", "Z": "+0000",
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

// dates are the layouts of moments, with the zone as an offset.
var dates = []string{
	"Mon, 02 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 -0700", "02 Jan 2006 15:04:05 -0700", // HTTP, mail
	"Monday, 02-Jan-06 15:04:05 -0700", "Mon, 02-Jan-2006 15:04:05 -0700", // before RFC 1123, cookies
	"2006-01-02T15:04:05 -0700", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04 -0700", // RFC 3339; without seconds as Jira has it
}

// date reads a moment. If the text has no zone, it is read as UTC only where its format implies
// that.
func date(text string) (time.Time, bool) {
	if len(text) > longestDate {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", time.ANSIC} {
		if moment, err := time.Parse(layout, text); err == nil {
			return moment, true
		}
	}
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return time.Time{}, false
	}
	zone := text[i+1:]
	if offset, ok := zones[strings.ToUpper(zone)]; ok {
		zone = offset
	}
	for _, layout := range dates {
		if moment, err := time.Parse(layout, text[:i]+" "+zone); err == nil {
			return moment, true
		}
	}
	return time.Time{}, false
}

const longestDate = 64 // bytes

// epoch is n units after 1970. n is below 1e14, so nothing overflows.
func epoch(n float64, unit time.Duration) time.Time {
	perSecond := float64(time.Second / unit)
	whole := int64(n / perSecond)
	return time.Unix(whole, int64((n-float64(whole)*perSecond)*float64(unit)))
}

// span reads a duration with units: "6m0s", "120ms", "2m59.56s". It does not read days.
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
