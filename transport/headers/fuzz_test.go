package headers_test

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/fleetpace/fleetpace/transport/headers"
)

// FuzzRead proves that no answer makes Read panic or tell what cannot be:
// negative or endless times, numbers that are none.
func FuzzRead(f *testing.F) {
	f.Add(429, "Retry-After: 120")
	f.Add(403, "X-Ratelimit-Limit: 60\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 1755780150250\nX-Ratelimit-Resource: core")
	f.Add(200, "X-Ratelimit-Limit-Requests: 60\nX-Ratelimit-Remaining-Requests: 59\nX-Ratelimit-Reset-Requests: 6m0s")
	f.Add(200, "Anthropic-Ratelimit-Requests-Limit: 60\nAnthropic-Ratelimit-Requests-Reset: 2025-08-21T12:40:59Z")
	f.Add(200, "Ratelimit: \"default\";r=50;t=30\nRatelimit-Policy: \"default\";q=100;w=60;qu=\"requests\"")
	f.Add(200, "Ratelimit: limit=100, remaining=50, reset=5")
	f.Add(200, "Ratelimit-Limit: 100, 100;window=60, (1 2);w=3\nRatelimit-Policy: 100;w=999999999999999")
	f.Add(503, "Date: Thu, 21 Aug 2025 12:41:00 GMT\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT\nX-Shopify-Shop-Api-Call-Limit: 32/40")
	f.Add(500, "Retry-After: Thursday, 21-Aug-25 08:42:30 EDT\nAge: 5")
	f.Add(429, "X-Hubspot-Ratelimit-Max: 100\nX-Hubspot-Ratelimit-Interval-Milliseconds: 10000\nX-Hubspot-Ratelimit-Daily-Remaining: 0")
	f.Add(429, "X-Ratelimit-Limit: 10\nX-Ratelimit-Remaining: 3\nX-Ratelimit-Interval-Seconds: 5\nX-Ratelimit-Fillrate: 2\nX-Ratelimit-Reset: 2025-08-21T12:43Z")
	f.Fuzz(func(t *testing.T, status int, lines string) {
		header := http.Header{}
		for line := range strings.Lines(lines) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			header.Add(name, value)
		}
		a := headers.Read(status, header, now)
		if a.After < 0 || a.After > headers.Longest || a.After > 0 && !a.Refused {
			t.Fatalf("after %v of %+v", a.After, a)
		}
		if a.Repeat < 0 || a.Repeat > headers.Longest || a.Repeat > 0 && !a.Named || a.Cached && (a.Refused || len(a.Windows) > 0) {
			t.Fatalf("repeat %v of %+v", a.Repeat, a)
		}
		for _, w := range a.Windows {
			if !(w.Limit >= 0) || !(w.Remaining >= -1) || math.IsInf(w.Limit, 0) || math.IsInf(w.Remaining, 0) ||
				w.Reset < 0 || w.Reset > headers.Longest || w.Period < 0 || w.Period > headers.Longest ||
				w.Limit == 0 && w.Remaining < 0 {
				t.Fatalf("window %+v", w)
			}
			if wait := w.Wait(3); wait < 0 || wait > headers.Longest {
				t.Fatalf("wait %v of %+v", wait, w)
			}
			if rate := w.Rate(); rate < 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
				t.Fatalf("rate %v of %+v", rate, w)
			}
		}
	})
}
