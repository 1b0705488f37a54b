package headers

import (
	"net/http"
	"time"
)

// retryAfter reads when to come back, and whether the answer says so at all: it
// may say now.
func retryAfter(header http.Header, clock time.Time) (time.Duration, bool) {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"} {
		if n, ok := number(header.Get(name)); ok {
			return bounded(n, time.Millisecond), true
		}
	}
	var longest time.Duration
	said := false
	// A proxy may have added its own: both have to be content.
	for _, text := range header.Values("Retry-After") {
		d, ok := waitOf(text, clock)
		if !ok { // seconds, by the RFC, however many
			if _, ok = number(text); ok {
				d = Longest
			}
		}
		if ok {
			longest, said = max(longest, d), true
		}
	}
	return longest, said
}
