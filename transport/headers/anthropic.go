package headers

import (
	"net/http"
	"strings"
	"time"
)

// anthropic reads Anthropic-RateLimit-<name>-Limit, -Remaining and -Reset. The reset is a moment.
// Anthropic documents the limits as token buckets with a rate per minute.
func anthropic(header http.Header, clock time.Time) []Window {
	s := set{}
	for key, values := range header {
		rest, ok := strings.CutPrefix(key, "Anthropic-Ratelimit-")
		if !ok {
			if rest, ok = strings.CutPrefix(key, "Anthropic-"); !ok || !strings.HasPrefix(rest, "Priority-") {
				continue
			}
		}
		name, what, ok := cutLast(rest, '-')
		name = word(name)
		if !ok || len(values) == 0 || unitOf(name) == "" {
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
			}
		}
	}
	for _, w := range s {
		w.Period, w.Refills = time.Minute, true
	}
	return s.list()
}
