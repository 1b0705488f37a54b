package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
)

// writeSummary prints the result of the crawl for people.
func writeSummary(w io.Writer, r result, t *tally, sc *scene) {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\n%d pages (%.1f MB) in %.1f s; %d of %d worker processes sent requests\n",
		r.Pages, float64(t.bytes)/1e6, r.Seconds, r.Processes, sc.opts.workers)
	judge := "as the workers sent them"
	if sc.site != nil {
		judge = "judged by a strict provider as they arrived"
	}
	line("requests", "%d, refused %d (%s)", r.Requests, r.Refused, judge)
	line("limit", "%g/s in all, %g/s per host; %.1f %% of it was used", r.LimitPerSecond, sc.perHost, 100*r.Utilization)
	line("machine", "%s", r.Text())
	robots := fmt.Sprintf("%d URLs not visited", t.outcomes[disallowed])
	if r.RobotsViolations != nil {
		robots += fmt.Sprintf(", %d violations", *r.RobotsViolations)
	}
	line("robots.txt", "%s", robots)
	line("otherwise", "%d redirects, %d not HTML, %d failed", t.outcomes[redirected], t.outcomes[notHTML], t.outcomes[failed])
	line("pages", "%s", r.Out)
	if r.Chart != "" {
		line("picture", "%s", r.Chart)
	}
	fmt.Fprint(w, b.String())
}

// writeJSON prints the result as one line.
func writeJSON(w io.Writer, r result) error {
	r.Utilization = math.Round(r.Utilization*10000) / 10000
	r.Seconds = math.Round(r.Seconds*1000) / 1000
	return json.NewEncoder(w).Encode(r)
}
