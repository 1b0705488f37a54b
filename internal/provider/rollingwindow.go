package provider

import (
	"fmt"
	"sort"
	"time"
)

// RollingWindow allows n permits in any window of the given length, wherever it
// starts. Two calls that are exactly one window apart are not in one window.
func RollingWindow(n int, window time.Duration) Rule {
	checkWindow("RollingWindow", n, window)
	return Rule{start: func(time.Time) state {
		return &rollingWindow{limit: n, window: window}
	}}
}

func checkWindow(rule string, n int, window time.Duration) {
	if n < 1 {
		panic(fmt.Sprintf("provider: %s(n %d): want at least 1", rule, n))
	}
	if window <= 0 {
		panic(fmt.Sprintf("provider: %s(window %v): want a positive duration", rule, window))
	}
}

// rollingWindow keeps every accepted call with the running total up to it. The calls in the window
// are at the end, and binary search finds the first of them.
type rollingWindow struct {
	limit  int
	window time.Duration
	taken  []taken
}

type taken struct {
	at    time.Duration
	total int // permits taken up to and including this call
}

func (w *rollingWindow) wait(at time.Duration, n int) time.Duration {
	if n > w.limit {
		return Never
	}
	if len(w.taken) == 0 {
		return 0
	}
	// All but limit-n of the permits taken so far must have left the window.
	mustLeave := w.taken[len(w.taken)-1].total - (w.limit - n)
	if mustLeave <= 0 {
		return 0
	}
	last := sort.Search(len(w.taken), func(i int) bool { return w.taken[i].total >= mustLeave })
	return max(0, w.taken[last].at+w.window-at)
}

func (w *rollingWindow) take(at time.Duration, n int) {
	total := n
	if len(w.taken) > 0 {
		total += w.taken[len(w.taken)-1].total
	}
	w.taken = append(w.taken, taken{at: at, total: total})
}
