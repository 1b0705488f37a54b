package headers

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// triplets reads Limit, Remaining and Reset without a name. A server that sends several spellings
// says the same in each, so the first one counts.
func triplets(header http.Header, clock time.Time) []Window {
	for _, prefix := range []string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-"} {
		w := Window{Unit: Requests, Remaining: -1}
		others := limits(header.Values(prefix+"Limit"), &w)
		if n, ok := number(header.Get(prefix + "Remaining")); ok {
			w.Remaining = n
		}
		if d, ok := waitOf(header.Get(prefix+"Reset"), clock); ok {
			w.Reset = d
		}
		if d, ok := waitOf(header.Get(prefix+"Reset-After"), clock); ok { // Discord, with a fraction
			w.Reset = d
		}
		if w.Limit <= 0 && w.Remaining < 0 {
			continue
		}
		if w.Period == 0 {
			others = append(others, policies(header.Values("Ratelimit-Policy"), &w)...)
		}
		if prefix == "X-Ratelimit-" {
			github(header, &w)
			atlassian(header, &w)
		}
		return append([]Window{w}, others...)
	}
	return nil
}

// limits reads the header of the limit into w and returns the other windows in it. The header is
// one number, or the number of the closest limit and then all limits with their windows, such as
// "100, 100;w=60, 10000;w=86400".
func limits(values []string, w *Window) (others []Window) {
	if len(values) == 0 {
		return nil
	}
	first, _, _ := strings.Cut(values[0], ",")
	first, _, _ = strings.Cut(first, ";")
	w.Limit, _ = number(first)
	return policies(values, w)
}

// policies reads policies without names, as before the draft had them: "100;w=60, 1000;w=3600". It
// finds the window of w among them by its limit, and returns the others.
func policies(values []string, w *Window) (others []Window) {
	for _, item := range items(values) {
		limit, ok := positive(item.Value)
		period := bounded(param(item, "w", "window"), time.Second)
		switch {
		case !ok || period == 0:
		case limit == w.Limit && w.Period == 0:
			w.Period = period
		default:
			others = append(others, Window{Unit: Requests, Limit: limit, Remaining: -1, Period: period})
		}
	}
	return others
}

// github sets the name of the window, if the response states it, and the lengths that GitHub
// documents.
func github(header http.Header, w *Window) {
	w.Name = word(header.Get("X-Ratelimit-Resource"))
	switch w.Name {
	case "core", "integration_manifest", "source_import":
		w.Period = time.Hour
	case "graphql":
		w.Unit, w.Period = "points", time.Hour
	case "search", "code_search":
		w.Period = time.Minute
	}
}

// atlassian reads the rate of a token bucket, as Jira, Confluence and Bitbucket Data Center state
// it. FillRate permits come each interval, and the limit is the size of the bucket.
func atlassian(header http.Header, w *Window) {
	each, ok1 := number(header.Get("X-Ratelimit-Interval-Seconds"))
	fills, ok2 := number(header.Get("X-Ratelimit-Fillrate"))
	if !ok1 || !ok2 || each <= 0 || fills <= 0 || w.Limit <= 0 {
		return
	}
	w.Refills, w.Period = true, bounded(each*w.Limit/fills, time.Second)
	if w.Remaining >= 0 {
		w.Reset = bounded(each*math.Ceil(max(w.Limit-w.Remaining, 0)/fills), time.Second)
	}
}
