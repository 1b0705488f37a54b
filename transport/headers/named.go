package headers

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// named reads X-RateLimit-Limit-<name>, -Remaining-<name> and -Reset-<name>, as
// OpenAI and those who speak like it send them.
//
// They do not say how long a window is: requests are per minute with one
// provider or account and per day with another. But where the reset is a
// duration with units, it is the time until a bucket is full, and what is used
// of it came in that time: see bucketPeriod.
func named(header http.Header, clock time.Time) []Window {
	s := set{}
	spans := map[string]bool{}
	for key, values := range header {
		rest, ok := strings.CutPrefix(key, "X-Ratelimit-")
		if !ok { // Azure has one of them so, beside the others
			rest, ok = strings.CutPrefix(key, "X-Rate-Limit-")
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
		}
	}
	for name, w := range s {
		w.Period = periodOf(name)
		if !spans[name] {
			continue
		}
		if period := bucketPeriod(*w); period > 0 && (w.Period == 0 || w.Period == period) {
			w.Period, w.Refills = period, true
		}
	}
	return s.list()
}

// bucketPeriod is the time in which a bucket fills, if it is one: when 30 of
// 14,400 are used and it is full in 180 s, one comes every 6 s, and all of them
// in a day. Only a second, a minute, an hour and a day are believed, where the
// numbers agree with one to a tenth: they are so far apart that rounding does not
// make one of another. 0: it is none of them, or nothing is used.
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
