package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fleetpace/fleetpace/internal/chart"
	"github.com/fleetpace/fleetpace/internal/provider"
)

// result is what happened while a contender worked.
type result struct {
	contender string
	scenario  scenario
	calls     []call // in the window, in the order of their arrival
	entries   map[string]int
	from, to  time.Time // the window, without its end
}

// newResult opens the window at the first call, and ends it after the last one where all tasks are
// done before it is over.
func newResult(contender string, s scenario, window time.Duration, calls []call, entries map[string]int) result {
	r := result{contender: contender, scenario: s, entries: entries}
	if len(calls) == 0 {
		return r
	}
	r.from, r.calls = calls[0].at, calls
	r.to = r.from.Add(window)
	done := map[string]bool{}
	for i, c := range calls {
		if !c.at.Before(r.to) {
			r.calls = calls[:i]
			break
		}
		if c.refused {
			continue
		}
		if done[c.task] = true; len(done) == len(s.jobs) {
			r.calls, r.to = calls[:i+1], c.at.Add(1)
			break
		}
	}
	return r
}

// Figure is a line of the result. What has no value is not there.
type Figure struct {
	Scenario  string   `json:"scenario"`
	Contender string   `json:"contender"`
	Limit     string   `json:"limit"` // or the group of tasks
	Tasks     int      `json:"tasks"`
	Done      int      `json:"done"`
	Seconds   float64  `json:"seconds"`
	Used      float64  `json:"used"`
	Refused   int      `json:"refused"`
	Entries   float64  `json:"entries_per_task"`
	Late50    *float64 `json:"late_ms_p50,omitempty"`
	Late99    *float64 `json:"late_ms_p99,omitempty"`
	Waited50  *float64 `json:"waited_ms_p50,omitempty"`
	Waited99  *float64 `json:"waited_ms_p99,omitempty"`
}

// figures are one line per limit, one per group of tasks and, where each tenant has the limit for
// itself, one of the tenant that used the least of it.
func (r *result) figures() (lines []Figure) {
	for _, l := range r.scenario.limits {
		limits := max(1, r.scenario.tenants)
		lines = append(lines, r.count(l.Name, l, limits, func(j *job) bool { name, _ := splitLine(j.line); return name == l.Name }))
		for _, group := range r.scenario.groups {
			lines = append(lines, r.count(group, l, limits, func(j *job) bool { return j.group == group }))
		}
		var worst *Figure
		for i := range r.scenario.tenants {
			line := fmt.Sprintf("%s/%03d", l.Name, i)
			if f := r.count("worst: "+line, l, 1, func(j *job) bool { return j.line == line }); worst == nil || f.Used < worst.Used {
				worst = &f
			}
		}
		if worst != nil {
			lines = append(lines, *worst)
		}
	}
	return lines
}

// count counts the calls of some jobs.
func (r *result) count(name string, l limit, limits int, of func(*job) bool) Figure {
	f := Figure{Scenario: r.scenario.name, Contender: r.contender, Limit: name, Seconds: r.to.Sub(r.from).Seconds()}
	jobs := map[string]*job{}
	for i := range r.scenario.jobs {
		if j := &r.scenario.jobs[i]; of(j) {
			jobs[j.id] = j
		}
	}
	f.Tasks = len(jobs)
	var late, waited []time.Duration
	done := map[string]bool{}
	accepted, entries := 0, 0
	for _, c := range r.calls {
		j := jobs[c.task]
		switch {
		case j == nil:
			continue
		case c.refused:
			f.Refused++
			continue
		case !c.due.IsZero():
			late = append(late, max(0, c.at.Sub(c.due)))
		}
		accepted++
		if done[c.task] {
			continue
		}
		done[c.task] = true
		entries += r.entries[c.task]
		if j.group != "" && !j.enqueued.IsZero() {
			waited = append(waited, c.at.Sub(j.enqueued))
		}
	}
	if f.Done = len(done); f.Done > 0 {
		f.Entries = float64(entries) / float64(f.Done)
	}
	if window := r.to.Sub(r.from); window > 0 {
		f.Used = float64(accepted) / (l.most(window) * float64(limits))
	}
	f.Late50, f.Late99 = percentile(late, 50), percentile(late, 99)
	f.Waited50, f.Waited99 = percentile(waited, 50), percentile(waited, 99)
	return f
}

// percentile is the smallest value, in milliseconds, that p percent of them do not exceed.
func percentile(values []time.Duration, p int) *float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	ms := float64(values[(len(values)*p+99)/100-1].Microseconds()) / 1000
	return &ms
}

// report prints figures: at once as JSON, or in the end as a table.
type report struct {
	w     io.Writer
	json  bool
	lines []Figure
}

func (r *report) add(lines []Figure) error {
	if !r.json {
		r.lines = append(r.lines, lines...)
		return nil
	}
	encoder := json.NewEncoder(r.w)
	for _, f := range lines {
		if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) close() error {
	if r.json {
		return nil
	}
	t := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contender\tlimit\ttasks\tdone\tseconds\tused\trefused\tentries\tlate\twaited\t")
	for _, f := range r.lines {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f\t%.1f %%\t%d\t%.2f\t%s\t%s\t\n", f.Contender, f.Limit, f.Tasks, f.Done, f.Seconds, 100*f.Used, f.Refused, f.Entries,
			pair(f.Late50, f.Late99), pair(f.Waited50, f.Waited99))
	}
	return t.Flush()
}

func pair(a, b *float64) string {
	if a == nil {
		return "–"
	}
	return fmt.Sprintf("%.3g, %.4g ms", *a, *b)
}

// draw draws the calls of each limit, those of all tenants together.
func (r *result) draw(path string) error {
	if path == "" {
		return nil
	}
	for _, l := range r.scenario.limits {
		var calls []provider.Call
		for _, c := range r.calls {
			if name, _ := splitLine(c.line); name == l.Name {
				calls = append(calls, provider.Call{At: c.at, N: 1, Refused: c.refused})
			}
		}
		name := r.contender
		if len(r.scenario.limits) > 1 {
			name += "-" + l.Name
		}
		if len(calls) == 0 {
			continue
		}
		ext := filepath.Ext(path)
		err := chart.Requests(strings.TrimSuffix(path, ext)+"-"+name+ext, fmt.Sprintf("%s, scenario %s", name, r.scenario.name), calls,
			250*time.Millisecond, l.Rate*float64(max(1, r.scenario.tenants)))
		if err != nil {
			return fmt.Errorf("-chart: %w", err)
		}
	}
	return nil
}
