package reserve

import (
	"cmp"
	"container/list"
	"math"
	"slices"
	"time"
)

// lookEvery is how often a process whose calls all have far turns looks, at the
// most, whether a nearer number was left lying; see queue.look.
const lookEvery = 250 * time.Millisecond

// ticket is a number of the line as this process knows it.
type ticket struct {
	cost   int64
	id     string // its name in the waiting list
	epoch  int64
	gen    int64         // up to which its turn follows the line; see geometry
	number int64         // 0: none, as Redis is away
	due    time.Time     // of its turn, or the forecast of it while it waits
	given  time.Time     // when the reply arrived …
	seen   int64         // … and Redis's time then, in Unix microseconds; 0: it was away
	slack  time.Duration // for so long after due it can be used
	since  time.Duration // at least so long before due the turn had come in truth
	unsure time.Duration // and maybe so much longer before
	final  bool
	kept   bool      // final, and known to Redis by its id
	leased bool      // a block that was taken ahead
	back   bool      // its turn was slept through: it is to wait again before it is claimed
	retry  time.Time // not to be claimed before this: the last claim failed

	// A call that keeps its number owns its ticket; others are served in order.
	owner  *waiter
	out    bool // being claimed
	left   bool // its owner left meanwhile
	unused bool // and does not keep the number
}

// place orders tickets: those without a number come last.
func (t *ticket) place() int64 {
	if t.number == 0 {
		return math.MaxInt64
	}
	return t.number
}

// renumbered reports whether numbers began anew between two tickets, so that these do
// not compare.
func (t *ticket) renumbered(other *ticket) bool {
	return t.epoch != other.epoch && t.number != 0 && other.number != 0
}

// compare orders tickets of a kind: by number, or those that are fixed by turn.
func (t *ticket) compare(other *ticket) int {
	if t.final && t.renumbered(other) {
		return t.due.Compare(other.due)
	}
	return cmp.Compare(t.place(), other.place())
}

// after reports whether a ticket comes after another, of whatever kind.
func (t *ticket) after(other *ticket) bool {
	if t.renumbered(other) {
		return t.due.After(other.due)
	}
	return t.number > other.number
}

// claimAt is when a waiting ticket should be claimed.
func (t *ticket) claimAt(lead time.Duration) time.Time {
	if at := t.due.Add(-lead); at.After(t.retry) {
		return at
	}
	return t.retry
}

// queue matches calls that wait in this process with the numbers that the
// process holds, first come, first served: numbers belong to the queue, not to
// a call. All tickets of a queue have one cost. It does no I/O and reads no
// clock; its owner guards it.
//
// Each waiter brings one request for a number, so held + asked numbers and
// waiters are equal until somebody leaves; then surplus says what goes back.
//
// In a pinned queue each ticket has an owner and nobody else gets its turn;
// there are no waiters in it besides the owners.
type queue struct {
	cost     int64
	pinned   bool
	waiters  list.List // of *waiter, in order of arrival
	asking   int       // requests that are not answered yet
	claiming int       // tickets out to be claimed
	final    []*ticket // by number; those from before data was lost come first
	waiting  []*ticket // by number; to be claimed before their turn

	// A call that is awake may have a nearer number than its own, if one was
	// left lying: its holder crashed, is late, or gave it back. look is when to
	// look for one, and row is set while there is a row of them.
	look time.Time
	row  bool
}

// join lets a waiter stand behind those who came before it.
func (q *queue) join(w *waiter) {
	before := q.waiters.Back()
	for before != nil && before.Value.(*waiter).arrival > w.arrival {
		before = before.Prev()
	}
	w.queue = q
	if before == nil {
		w.place = q.waiters.PushFront(w)
	} else {
		w.place = q.waiters.InsertAfter(w, before)
	}
}

// rejoin puts a waiter back to where it left.
func (q *queue) rejoin(w *waiter) {
	w.queue, w.place = q, q.waiters.PushFront(w)
}

func (q *queue) add(t *ticket) {
	tickets := &q.waiting
	if t.final {
		tickets = &q.final
	} else if q.look.IsZero() {
		q.look = t.given.Add(pause(t.due.Sub(t.given)))
	}
	at, _ := slices.BinarySearchFunc(*tickets, t, func(other, t *ticket) int {
		return cmp.Or(other.compare(t), -1) // behind those that came before
	})
	*tickets = slices.Insert(*tickets, at, t)
}

func (q *queue) idle() bool {
	return q.waiters.Len()+q.asking+q.claiming+len(q.final)+len(q.waiting) == 0
}

// short is by how many calls that wait are more than numbers that the queue has or expects.
func (q *queue) short() int {
	return max(0, q.waiters.Len()-len(q.final)-len(q.waiting)-q.claiming-q.asking)
}

// last is the ticket with the last turn that the queue holds.
func (q *queue) last() *ticket {
	var last *ticket
	if n := len(q.final); n > 0 {
		last = q.final[n-1]
	}
	if n := len(q.waiting); n > 0 && (last == nil || q.waiting[n-1].after(last)) {
		last = q.waiting[n-1]
	}
	return last
}

// surplus removes and returns a ticket that no waiter needs: the last one, so
// that those who stay move up. It returns nil when there is none, or while an
// answer is still to come, which may bring a later one.
func (q *queue) surplus() *ticket {
	t := q.last()
	if t == nil || q.pinned || q.asking > 0 || len(q.final)+len(q.waiting)+q.claiming <= q.waiters.Len() {
		return nil
	}
	if n := len(q.final); n > 0 && q.final[n-1] == t {
		q.final = q.final[:n-1]
	} else {
		q.waiting = q.waiting[:len(q.waiting)-1]
	}
	return t
}

// remove takes a ticket out, unless it is out to be claimed.
func (q *queue) remove(t *ticket) {
	for _, tickets := range []*[]*ticket{&q.final, &q.waiting} {
		if i := slices.Index(*tickets, t); i >= 0 {
			*tickets = slices.Delete(*tickets, i, i+1)
			return
		}
	}
}

// next removes and returns the first final ticket whose turn has come, and whom
// it serves: its owner, or the first waiter.
func (q *queue) next(now time.Time) (*waiter, *ticket) {
	if len(q.final) == 0 || q.final[0].due.After(now) {
		return nil, nil
	}
	t := q.final[0]
	w := t.owner
	if w == nil {
		first := q.waiters.Front()
		if first == nil {
			return nil, nil
		}
		w = first.Value.(*waiter)
		w.leave()
	}
	q.final = q.final[1:]
	return w, t
}

// claimable removes and returns the tickets that should be claimed now: once
// the first of them is closer than lead, all those closer than bound. Where that
// one is overdue by `still`, nobody was awake for a while and the line stood still:
// the others are not as near as it seems, so they wait to be retimed.
func (q *queue) claimable(now time.Time, lead, bound, still time.Duration, most int) []*ticket {
	if len(q.waiting) == 0 || q.waiting[0].claimAt(lead).After(now) {
		return nil
	}
	if now.Sub(q.waiting[0].due) > still {
		most = min(most, 1)
	}
	n := 0
	for n < len(q.waiting) && n < most && (n == 0 || q.waiting[n].due.Sub(now) <= bound) {
		n++
	}
	return q.send(n)
}

// turnless is how many calls have no turn.
func (q *queue) turnless() int {
	if q.pinned {
		return len(q.waiting)
	}
	return max(0, q.waiters.Len()-len(q.final))
}

// foremost is the first call that has no turn.
func (q *queue) foremost() *waiter {
	if q.pinned {
		if len(q.waiting) == 0 {
			return nil
		}
		return q.waiting[0].owner
	}
	at := q.waiters.Front()
	for range q.final {
		if at == nil {
			return nil
		}
		at = at.Next()
	}
	if at == nil {
		return nil
	}
	return at.Value.(*waiter)
}

// retime works out again when waiting tickets are due, from a ticket of the same
// line that Redis just told of: permits become available one interval apart.
func (q *queue) retime(told *ticket, interval float64) {
	for _, t := range q.waiting {
		if t.epoch == told.epoch {
			ahead := float64(t.number-told.number) * interval
			t.due = told.due.Add(time.Duration(ahead * float64(time.Microsecond)))
		}
	}
}

// resettle lets every ticket be adjusted that is not out to be claimed.
func (q *queue) resettle(adjust func(*ticket)) {
	tickets := slices.Concat(q.final, q.waiting)
	q.final, q.waiting = nil, nil
	for _, t := range tickets {
		adjust(t)
		q.add(t)
	}
}

// outdated removes and returns tickets that wait under numbers of another epoch, to be
// claimed: data was lost, and the numbers with it. It reports whether there are more.
func (q *queue) outdated(epoch int64, now time.Time, most int) (tickets []*ticket, more bool) {
	q.waiting = slices.DeleteFunc(q.waiting, func(t *ticket) bool {
		switch {
		case t.number == 0 || t.epoch == epoch:
			return false
		case t.retry.After(now) || len(tickets) == most:
			more = true
			return false
		default:
			tickets = append(tickets, t)
			return true
		}
	})
	return q.sent(tickets), more
}

// lookable removes and returns the tickets with which to look for numbers left
// lying, when it is time to: one, or in a row of them at most `row`.
func (q *queue) lookable(now time.Time, row, most int) []*ticket {
	if len(q.waiting) == 0 || most == 0 || q.look.After(now) {
		return nil
	}
	n := 1
	if q.row {
		n = min(row, len(q.waiting), most)
	}
	return q.send(n)
}

// send removes and returns the first n waiting tickets, to be claimed.
func (q *queue) send(n int) []*ticket {
	tickets := slices.Clone(q.waiting[:n])
	q.waiting = q.waiting[n:]
	return q.sent(tickets)
}

// sent notes that tickets are out to be claimed.
func (q *queue) sent(tickets []*ticket) []*ticket {
	q.claiming += len(tickets)
	for _, t := range tickets {
		t.out = true
	}
	return tickets
}

// looked notes what came of a look, and when to look next. Where one number was
// left lying there may be a row of them, so look on at once, and then before
// the next one's turn, which is step after that of the last one found.
func (q *queue) looked(now time.Time, tickets []*ticket, step, near time.Duration) {
	var last *ticket
	for _, t := range tickets {
		if t.final {
			last = t
		}
	}
	switch {
	case last == nil:
		q.row, q.look = false, now.Add(pause(tickets[0].due.Sub(now)))
	case !q.row:
		q.row, q.look = true, now
	default:
		q.look = last.due.Add(step - near/2)
	}
}

// pause is the time until the next look of a call whose turn is far away. Who
// waits for long costs few round trips, and if all numbers before it were left
// lying, at most this part of the time goes unused.
func pause(far time.Duration) time.Duration {
	return max(lookEvery, (far / 32).Round(time.Millisecond))
}

// turn is when the next turn comes; zero: none is fixed, or nobody waits for it.
func (q *queue) turn() time.Time {
	if len(q.final) > 0 && (q.pinned || q.waiters.Len() > 0) {
		return q.final[0].due
	}
	return time.Time{}
}

// ask is when claimable or lookable has something to give; zero: never.
func (q *queue) ask(lead time.Duration) time.Time {
	if len(q.waiting) == 0 {
		return time.Time{}
	}
	if at := q.waiting[0].claimAt(lead); at.Before(q.look) {
		return at
	}
	return q.look
}
