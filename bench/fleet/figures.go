package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// figure is a line of the result. A figure that has no value, such as the
// lateness of no calls, is null.
type figure struct {
	Scenario       string   `json:"scenario"`
	Contender      string   `json:"contender"`
	Limit          string   `json:"limit"`
	Tasks          float64  `json:"tasks"`
	Done           float64  `json:"done"`
	Seconds        float64  `json:"seconds"`
	Utilization    float64  `json:"utilization"`
	Refused        float64  `json:"refused"`
	EntriesPerTask *float64 `json:"entries_per_task"`
	LatenessP50    *float64 `json:"lateness_ms_p50"`
	LatenessP99    *float64 `json:"lateness_ms_p99"`
	BareP99        *float64 `json:"bare_ms_p99"`
	WaitP50        *float64 `json:"wait_ms_p50,omitempty"`
	WaitP99        *float64 `json:"wait_ms_p99,omitempty"`
}

// account is what is counted for a limit or a tenant.
type account struct {
	tasks, done, accepted, refused int
	entries                        int // of tasks that are done
	late                           []time.Duration
	waits                          []time.Duration // since they were enqueued, where groups are compared
}

func figures(s scenario, contenderName string, r result) []figure {
	accounts := r.accounts()
	var bare *float64
	if late := lateness(r.bare); len(late) > 0 {
		bare = rounded(percentile(late, 99))
	}
	base := func(name string) figure {
		return figure{Scenario: s.name, Contender: contenderName, Limit: name, BareP99: bare}
	}
	var lines []figure
	for _, l := range s.limits {
		if s.tenants == 0 {
			lines = append(lines, accounts[l.Name].fill(base(l.Name), l, r))
			for _, group := range s.groups {
				lines = append(lines, accounts[l.Name+" "+group].fill(base(group), l, r))
			}
			continue
		}
		var each []figure
		var all account
		for _, line := range slices.Sorted(maps.Keys(accounts)) {
			each = append(each, accounts[line].fill(base(line), l, r))
			all.add(accounts[line])
		}
		// Of all calls together: a tenant alone has too few for a percentile.
		together := all.fill(base("mean"), l, r)
		lines = append(lines, worst(base("worst"), each), mean(together, each))
	}
	return lines
}

// accounts are by line.
func (r *result) accounts() map[string]*account {
	accounts := make(map[string]*account)
	entries := r.entries()
	jobs := make(map[string]*job)
	for i := range r.jobs {
		j := &r.jobs[i]
		jobs[j.id] = j
		for _, name := range j.accounts() {
			if accounts[name] == nil {
				accounts[name] = &account{}
			}
			accounts[name].tasks++
		}
	}
	done := make(map[string]bool)
	for _, c := range r.calls {
		j := jobs[c.task]
		for _, name := range j.accounts() {
			accounts[name].take(c, j, entries[c.task], done[c.task])
		}
		done[c.task] = done[c.task] || !c.refused
	}
	return accounts
}

// accounts are those that a job counts for.
func (j *job) accounts() []string {
	if j.group == "" {
		return []string{j.line}
	}
	return []string{j.line, j.line + " " + j.group}
}

// take counts a call of a job.
func (a *account) take(c call, j *job, entries int, wasDone bool) {
	if c.refused {
		a.refused++
		return
	}
	a.accepted++
	a.late = append(a.late, c.late())
	if wasDone {
		return
	}
	a.done++
	a.entries += entries
	if j.group != "" {
		a.waits = append(a.waits, c.at.Sub(j.enqueued))
	}
}

func (a *account) add(b *account) {
	a.entries += b.entries
	a.done += b.done
	a.late = append(a.late, b.late...)
}

func (a *account) fill(f figure, l limit, r result) figure {
	window := r.to.Sub(r.from)
	f.Tasks, f.Done, f.Refused = float64(a.tasks), float64(a.done), float64(a.refused)
	f.Seconds = round(window.Seconds())
	if window > 0 {
		f.Utilization = round(float64(a.accepted) / float64(l.most(window)))
	}
	if a.done > 0 {
		f.EntriesPerTask = rounded(float64(a.entries) / float64(a.done))
	}
	if len(a.late) > 0 {
		slices.Sort(a.late)
		f.LatenessP50 = rounded(percentile(a.late, 50))
		f.LatenessP99 = rounded(percentile(a.late, 99))
	}
	if len(a.waits) > 0 {
		slices.Sort(a.waits)
		f.WaitP50 = rounded(percentile(a.waits, 50))
		f.WaitP99 = rounded(percentile(a.waits, 99))
	}
	return f
}

// lateness of calls, sorted.
func lateness(calls []call) []time.Duration {
	var late []time.Duration
	for _, c := range calls {
		late = append(late, c.late())
	}
	slices.Sort(late)
	return late
}

// percentile is the smallest value, in milliseconds, that p percent of the
// sorted values do not exceed.
func percentile(sorted []time.Duration, p int) float64 {
	rank := (len(sorted)*p + 99) / 100
	return float64(sorted[rank-1]) / float64(time.Millisecond)
}

// mean replaces the counts of f by those of the average tenant.
func mean(f figure, each []figure) figure {
	f.Tasks, f.Done, f.Utilization, f.Refused = 0, 0, 0, 0
	for _, t := range each {
		n := float64(len(each))
		f.Tasks += t.Tasks / n
		f.Done += t.Done / n
		f.Utilization += t.Utilization / n
		f.Refused += t.Refused / n
	}
	f.Tasks, f.Done, f.Utilization, f.Refused = round(f.Tasks), round(f.Done), round(f.Utilization), round(f.Refused)
	return f
}

// worst has in each column the worst value of any tenant.
func worst(f figure, each []figure) figure {
	f.Tasks, f.Seconds = each[0].Tasks, each[0].Seconds
	f.Done, f.Utilization = each[0].Done, each[0].Utilization
	for _, t := range each {
		f.Done = min(f.Done, t.Done)
		f.Utilization = min(f.Utilization, t.Utilization)
		f.Refused = max(f.Refused, t.Refused)
		f.EntriesPerTask = larger(f.EntriesPerTask, t.EntriesPerTask)
		f.LatenessP50 = larger(f.LatenessP50, t.LatenessP50)
		f.LatenessP99 = larger(f.LatenessP99, t.LatenessP99)
	}
	return f
}

func larger(a, b *float64) *float64 {
	if a == nil || b != nil && cmp.Less(*a, *b) {
		return b
	}
	return a
}

const decimals = 1e4

func round(x float64) float64 { return math.Round(x*decimals) / decimals }

func rounded(x float64) *float64 {
	x = round(x)
	return &x
}
