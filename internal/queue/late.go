package queue

import (
	"slices"
	"time"
)

// Latest is the latest deadline of the last n new calls that were asked for; zero: some have none, or
// nobody knows when their turns are.
func (q *Queue) Latest(n int) (latest time.Time) {
	if q.Slots != nil {
		return time.Time{}
	}
	end := min(len(q.places)+q.asked, len(q.waiting))
	for _, c := range q.waiting[max(0, end-n):end] {
		if c.Deadline.IsZero() {
			return time.Time{}
		}
		if c.Deadline.After(latest) {
			latest = c.Deadline
		}
	}
	return latest
}

// TooLate notes that a new call has neither turn nor place, as its turn would be too late: that of
// others that have none either, too, whose deadlines are not later.
func (q *Queue) TooLate(turn time.Time, slowest int) {
	q.asked--
	for i := len(q.waiting) - 1; i >= len(q.places)+q.asked; i-- {
		if q.misses(q.waiting[i], turn, slowest) {
			q.waiting = slices.Delete(q.waiting, i, i+1)
		}
	}
}
