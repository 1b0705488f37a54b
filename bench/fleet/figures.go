package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fleetpace/fleetpace/internal/chart"
	"github.com/fleetpace/fleetpace/internal/provider"
)

// limit is what an API allows.
type limit struct {
	Name  string
	Rate  float64 // per second
	Burst int
}

// forLimiters is what every contender's limiter is set to: half of the API's burst. Calls that leave
// evenly do not arrive evenly; the rest of the burst is for that.
func (l limit) forLimiters() (rate float64, burst int) { return l.Rate, l.Burst / 2 }

// most is how many calls the API accepts in a window that begins with a full bucket.
func (l limit) most(window time.Duration) float64 {
	return float64(l.Burst) - 1 + math.Ceil(l.Rate*window.Seconds())
}

// Figure is what a contender did with a limit.
type Figure struct {
	Scenario  string  `json:"scenario"`
	Contender string  `json:"contender"`
	Limit     string  `json:"limit"`
	Tasks     int     `json:"tasks"`
	Done      int     `json:"done"`
	Seconds   float64 `json:"seconds"`
	Used      float64 `json:"used"`
	Refused   int     `json:"refused"`
}

// result is what the API saw of a contender: the calls of each limit in the window, which begins with
// the first call, and ends after the last one where all tasks are done before it is over.
type result struct {
	contender string
	scenario  scenario
	calls     map[string][]provider.Call
	window    time.Duration
}

func newResult(contender string, s scenario, window time.Duration, a *api) result {
	r := result{contender: contender, scenario: s, calls: map[string][]provider.Call{}, window: window}
	done, from := a.seen()
	var last time.Time
	for name, judge := range a.judges {
		calls := judge.History()
		end, _ := slices.BinarySearchFunc(calls, from.Add(window), func(c provider.Call, at time.Time) int { return c.At.Compare(at) })
		if r.calls[name] = calls[:end]; end > 0 && calls[end-1].At.After(last) {
			last = calls[end-1].At
		}
	}
	if done >= len(s.lines) && !last.IsZero() {
		r.window = last.Add(1).Sub(from)
	}
	return r
}

// figures are one line per limit.
func (r *result) figures() (lines []Figure) {
	for _, l := range r.scenario.limits {
		f := Figure{Scenario: r.scenario.name, Contender: r.contender, Limit: l.Name, Seconds: r.window.Seconds()}
		for _, line := range r.scenario.lines {
			if line == l.Name {
				f.Tasks++
			}
		}
		for _, c := range r.calls[l.Name] {
			if c.Refused {
				f.Refused++
			} else {
				f.Done++
			}
		}
		f.Used = float64(f.Done) / l.most(r.window)
		lines = append(lines, f)
	}
	return lines
}

// print prints figures, as lines of JSON or as a table.
func print(w io.Writer, all []Figure, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		for _, f := range all {
			if err := encoder.Encode(f); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintln(w, time.Now().Format(time.DateOnly))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "scenario\tcontender\tlimit\ttasks\tdone\tseconds\tused\trefused\t")
	for _, f := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.1f\t%.1f %%\t%d\t\n", f.Scenario, f.Contender, f.Limit, f.Tasks, f.Done, f.Seconds, 100*f.Used, f.Refused)
	}
	return t.Flush()
}

// draw draws the calls of each limit.
func (r *result) draw(path string) error {
	if path == "" {
		return nil
	}
	for _, l := range r.scenario.limits {
		name, ext := r.contender, filepath.Ext(path)
		if len(r.scenario.limits) > 1 {
			name += "-" + l.Name
		}
		if len(r.calls[l.Name]) == 0 {
			continue
		}
		title := fmt.Sprintf("%s, scenario %s", name, r.scenario.name)
		if err := chart.Requests(strings.TrimSuffix(path, ext)+"-"+name+ext, title, r.calls[l.Name], 250*time.Millisecond, l.Rate); err != nil {
			return fmt.Errorf("-chart: %w", err)
		}
	}
	return nil
}
