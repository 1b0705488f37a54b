package main

import (
	"slices"
	"time"
)

// result is what happened while a contender ran.
type result struct {
	jobs     []job
	calls    []call // in order of arrival
	bare     []call // of the bare callers beside the contender
	notes    []note
	from, to time.Time // the window, without its end
}

// newResult opens the window at the first call. It is cut after the last one
// when all tasks are done before it is over.
func newResult(jobs []job, window time.Duration, calls, bare []call, notes []note) result {
	r := result{jobs: jobs, calls: calls, notes: notes}
	if len(calls) == 0 {
		return r
	}
	r.from = calls[0].at
	r.to = r.from.Add(window)
	slices.SortStableFunc(notes, func(a, b note) int { return a.At.Compare(b.At) })
	r.keepPromises()

	done := make(map[string]bool)
	for i, c := range calls {
		if !c.at.Before(r.to) {
			r.calls = calls[:i]
			break
		}
		if !c.refused {
			done[c.task] = true
		}
		if len(done) == len(jobs) {
			r.calls = calls[:i+1]
			r.to = c.at.Add(1)
			break
		}
	}
	for _, c := range bare {
		if !c.at.Before(r.from) && c.at.Before(r.to) {
			r.bare = append(r.bare, c)
		}
	}
	return r
}

// keepPromises gives each call of a task that went back the moment that the
// limiter had named to it last. A call settles all promises: a task that was
// refused begins anew.
func (r *result) keepPromises() {
	promises := make(map[string][]note)
	for _, n := range r.notes {
		if n.Kind == promised {
			promises[n.Task] = append(promises[n.Task], n)
		}
	}
	for i := range r.calls {
		c := &r.calls[i]
		open := promises[c.task]
		settled := 0
		for settled < len(open) && open[settled].At.Before(c.at) {
			c.due = open[settled].Promise
			settled++
		}
		promises[c.task] = open[settled:]
	}
}

// entries counts how often each task entered its handler in the window.
func (r *result) entries() map[string]int {
	count := make(map[string]int)
	for _, n := range r.notes {
		if n.Kind == entered && n.At.Before(r.to) {
			count[n.Task]++
		}
	}
	return count
}
