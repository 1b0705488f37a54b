package world

import (
	"container/heap"
	"time"
)

// schedule is the time of a world, and its planned actions. Actions at one moment happen in the order in
// which they were planned.
type schedule struct {
	now   time.Duration // since the world began
	tasks tasks
	count int
}

type task struct {
	at   time.Duration
	n    int
	what func()
}

type tasks []*task

func (e tasks) Len() int { return len(e) }
func (e tasks) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e tasks) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *tasks) Push(x any)   { *e = append(*e, x.(*task)) }
func (e *tasks) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return last
}

// after plans an action.
func (s *schedule) after(d time.Duration, what func()) { s.at(s.now+max(0, d), what) }

func (s *schedule) at(at time.Duration, what func()) {
	s.count++
	heap.Push(&s.tasks, &task{max(at, s.now), s.count, what})
}

// play runs the next action.
func (s *schedule) play() {
	next := heap.Pop(&s.tasks).(*task)
	s.now = next.at
	next.what()
}
