package world

import (
	"container/heap"
	"time"
)

// schedule is the time of a world, and what is to happen in it. What is due at one moment happens
// in the order in which it was planned.
type schedule struct {
	now    time.Duration // since the world began
	tasks  tasks
	count  int
	sooner chan struct{} // told when something is planned, if somebody sleeps
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

// after plans something.
func (s *schedule) after(d time.Duration, what func()) { s.at(s.now+max(0, d), what) }

func (s *schedule) at(at time.Duration, what func()) {
	s.count++
	heap.Push(&s.tasks, &task{max(at, s.now), s.count, what})
	select {
	case s.sooner <- struct{}{}:
	default:
	}
}

// next is when the next of it is due; false: nothing is planned.
func (s *schedule) next() (time.Duration, bool) {
	if len(s.tasks) == 0 {
		return 0, false
	}
	return s.tasks[0].at, true
}

// play lets everything happen that is due.
func (s *schedule) play() {
	for len(s.tasks) > 0 && s.tasks[0].at <= s.now {
		heap.Pop(&s.tasks).(*task).what()
	}
}
