package main

import (
	"slices"

	"github.com/fleetpace/fleetpace/internal/bare"
	"github.com/fleetpace/fleetpace/internal/example"
	"github.com/fleetpace/fleetpace/internal/provider"
)

// tally is what the parent counts. Only the parent's loop uses it; it is not safe for concurrent
// use.
type tally struct {
	pages    int
	bytes    int
	outcomes map[visitResult]int
	workers  map[string]int // requests, by worker
	calls    []provider.Call
}

func newTally() *tally {
	return &tally{outcomes: make(map[visitResult]int), workers: make(map[string]int)}
}

func (t *tally) add(from string, line report) {
	if r := line.Request; r != nil {
		t.workers[from]++
		t.calls = append(t.calls, provider.Call{At: r.At, N: 1, Refused: r.Status == 429})
	}
	if line.Outcome != "" {
		t.outcomes[line.Outcome]++
	}
}

// sent returns all requests in the order in which they were sent, as the workers saw it. It is used
// if there is no provider that counts them.
func (t *tally) sent() []provider.Call {
	slices.SortFunc(t.calls, func(a, b provider.Call) int { return a.At.Compare(b.At) })
	return t.calls
}

// result is the result of a crawl. Its JSON form is the last line of -json.
type result struct {
	Pages          int     `json:"pages"`
	Requests       int     `json:"requests"`
	Refused        int     `json:"refused"`
	Seconds        float64 `json:"seconds"` // from the first to the last request
	LimitPerSecond float64 `json:"limit_per_second"`
	// Utilization is (requests - burst) / (limit * seconds), with the burst of the
	// crawl's limit.
	Utilization      float64 `json:"utilization"`
	Processes        int     `json:"processes"`                   // processes that sent requests
	RobotsViolations *int    `json:"robots_violations,omitempty"` // nil if the site does not count them
	Complete         bool    `json:"complete"`                    // nothing is left on the frontier
	Run              string  `json:"run"`
	Out              string  `json:"out"`
	Chart            string  `json:"chart,omitempty"`

	bare.Figures // measured by a goroutine that only sleeps
}

// sum makes the result. s is nil when the site is not ours; then the workers'
// own records are all there is.
func (t *tally) sum(s *example.Site, qps float64) (result, []provider.Call) {
	calls := t.sent()
	total := example.Summarise(calls)
	r := result{Pages: t.pages, Processes: len(t.workers), LimitPerSecond: qps}
	if s != nil {
		calls, total = s.All.History(), s.All.Summary()
		total.Refused = s.Refused()
		violations := int(s.Violations.Load())
		r.RobotsViolations = &violations
	}
	r.Requests, r.Refused = total.Requests, total.Refused
	r.Seconds = total.Last.Sub(total.First).Seconds()
	r.Utilization = total.Utilization(qps, crawlBurst)
	return r, calls
}
