package headers

import (
	"net/http"
	"time"
)

// hubspot reads the two limits of HubSpot: a rolling one of some seconds, and one per day, which
// ends at midnight in the account's time zone. HubSpot does not say when the next call may be made.
func hubspot(header http.Header, _ time.Time) []Window {
	const prefix = "X-Hubspot-Ratelimit-"
	s := set{}
	for name, fields := range map[string][2]string{"rolling": {"Max", "Remaining"}, "daily": {"Daily", "Daily-Remaining"}} {
		limit, ok1 := number(header.Get(prefix + fields[0]))
		remaining, ok2 := number(header.Get(prefix + fields[1]))
		if !ok1 && !ok2 {
			continue
		}
		w := s.at(name)
		w.Unit, w.Limit, w.Period = Requests, limit, day
		if ok2 {
			w.Remaining = remaining
		}
		if name == "rolling" {
			millis, _ := number(header.Get(prefix + "Interval-Milliseconds"))
			w.Period = bounded(millis, time.Millisecond)
		}
	}
	return s.list()
}
