package headers

import (
	"cmp"
	"math"
	"net/http"
	"strings"
	"time"
)

// named reads X-RateLimit-Limit-<name>, -Remaining-<name> and -Reset-<name>, as OpenAI and
// compatible providers send them.
//
// These headers do not say how long a window is: one provider or account counts requests per
// minute, another per day. But if the reset is a duration with units, it is the time until a token
// bucket is full. The period then follows from it: see bucketPeriod.
func named(header http.Header, clock time.Time) []Window {
	s := set{}
	spans := map[string]bool{}
	for key, values := range header {
		rest, ok := strings.CutPrefix(key, "X-Ratelimit-")
		azure := false
		if !ok {
			rest, ok = strings.CutPrefix(key, "X-Rate-Limit-")
			azure = ok
		}
		if !ok || len(values) == 0 {
			continue
		}
		what, name, ok := strings.Cut(rest, "-")
		name = word(name)
		if !ok || name == "" || what == "Reset" && name == "after" { // Discord's, see triplets
			continue
		}
		switch n, isNumber := number(values[0]); {
		case what == "Limit" && isNumber:
			s.at(name).Limit = n
		case what == "Remaining" && isNumber:
			s.at(name).Remaining = n
		case what == "Reset":
			if d, ok := waitOf(values[0], clock); ok {
				s.at(name).Reset = d
				_, spans[name] = span(strings.TrimSpace(values[0]))
			}
			if azure { // it spells this header alone like this, and counts tokens by the minute
				s.at(name).Period = time.Minute
			}
		}
	}
	for name, w := range s {
		w.Period = cmp.Or(w.Period, periodOf(name))
		if !spans[name] {
			continue
		}
		if period := bucketPeriod(*w); period > 0 && (w.Period == 0 || w.Period == period) {
			w.Period, w.Refills = period, true
		}
	}
	return s.list()
}

// bucketPeriod is the time in which a token bucket fills, or 0 if that is unknown. For example, 30
// of 14,400 are used and the bucket is full in 180 s: one comes every 6 s, and all of them in a
// day.
//
// Only a second, a minute, an hour and a day are accepted, if the numbers agree within a tenth.
// They are so far apart that rounding cannot turn one into another.
func bucketPeriod(w Window) time.Duration {
	if w.Limit <= 0 || w.Remaining < 0 || w.Remaining >= w.Limit || w.Reset <= 0 {
		return 0
	}
	fills := w.Reset.Seconds() * w.Limit / (w.Limit - w.Remaining)
	for _, period := range []time.Duration{time.Second, time.Minute, time.Hour, day} {
		if math.Abs(fills/period.Seconds()-1) <= 0.1 {
			return period
		}
	}
	return 0
}
