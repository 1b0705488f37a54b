package engine

import (
	"container/heap"
	"time"
)

// alarm is a moment at which something is due. The zero alarm is not set.
type alarm struct {
	at    time.Time
	index int // in the heap, from 1 on; 0: it is not set
	of    due
}

// due is what an alarm is set for.
type due interface {
	// isDue does what is to be done. The alarm is not set any more.
	isDue(e *Engine, now time.Time)
}

// duty is a task of the engine itself for which an alarm is set.
type duty func(e *Engine, now time.Time)

func (d duty) isDue(e *Engine, now time.Time) { d(e, now) }

// alarms is a heap of the alarms that are set, the earliest first.
//
// Invariant: alarms[i].index is i+1, and no alarm is earlier than its parent in the heap.
type alarms []*alarm

// set sets an alarm to a moment, and to no other one.
func (h *alarms) set(a *alarm, at time.Time) {
	switch {
	case a.index == 0:
		a.at = at
		heap.Push(h, a)
	case !a.at.Equal(at):
		a.at = at
		heap.Fix(h, a.index-1)
	}
}

// clear unsets an alarm.
func (h *alarms) clear(a *alarm) {
	if a.index > 0 {
		heap.Remove(h, a.index-1)
	}
}

// next is when the first alarm is due. Zero: no alarm is set.
func (h alarms) next() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].at
}

// ring does all that is due.
func (h *alarms) ring(e *Engine, now time.Time) {
	for len(*h) > 0 && !(*h)[0].at.After(now) {
		a := (*h)[0]
		h.clear(a)
		a.of.isDue(e, now)
	}
}

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h alarms) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push is for package heap.
func (h *alarms) Push(x any) {
	a, _ := x.(*alarm)
	*h = append(*h, a)
	a.index = len(*h)
}

// Pop is for package heap.
func (h *alarms) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.index = 0
	return a
}
