package headers

import (
	"net/http"
	"time"
)

// retryAfter returns how long to wait before the next call, and whether the response says so at
// all. The wait may be 0.
func retryAfter(header http.Header, clock time.Time) (time.Duration, bool) {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"} {
		if n, ok := number(header.Get(name)); ok {
			return bounded(n, time.Millisecond), true
		}
	}
	var longest time.Duration
	said := false
	// A proxy may have added its own header, so the longest wait counts.
	for _, text := range header.Values("Retry-After") {
		d, ok := waitOf(text, clock)
		if !ok { // the RFC allows any number of seconds
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
