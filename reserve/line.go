package reserve

import (
	"sync"
	"time"
)

const (
	// oversleep is by how much a call may be late, beyond what its permits allow,
	// before its turn counts as missed: what timers and schedulers do to a
	// process that runs.
	oversleep = 20 * time.Millisecond

	// suspension is by how much the wall clock may run ahead of the monotonic
	// one, which stands still while a machine sleeps.
	suspension = time.Second
)

// line is the waiting side of one limit in this process: the queues of its
// calls and the round trips that they share. A line lives while something uses
// it; see core.enter.
//
// At most one goroutine (fly) does round trips; calls that come meanwhile share
// the next one. Timers give the turns, so a slow Redis delays no call that
// already has its turn.
type line struct {
	core *core
	key  string
	keys []string
	uses int // guarded by core.mu

	mu     sync.Mutex
	queues map[int64]*queue // by cost, for calls without a number of their own
	pinned map[*queue]bool  // for calls that keep theirs
	asks   []*ask
	back   []*ticket // to be given back
	flying bool
	timers map[*queue]*time.Timer
	reach  time.Time // when the last number that was seen is due; zero: not known
}

// join lets a call wait for its turn, and asks for a number on its behalf.
func (l *line) join(w *waiter, r request) *ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.shared(r.cost)
	q.join(w)
	q.asking++
	a := &ask{request: r, queue: q, done: func(t *ticket, err error) { l.arrived(q, w, t, err) }}
	l.enqueue(a)
	return a
}

// arrived takes the answer to the request of a waiter, who may have left.
func (l *line) arrived(q *queue, w *waiter, t *ticket, err error) {
	q.asking--
	if err != nil {
		if w.place != nil {
			w.leave()
			w.finish(nil, err)
		}
		return
	}
	// The number is the queue's, and w gets the one that its place in the queue
	// gives it. Where that would come too late for w, it keeps its own.
	if last := q.last(); w.place != nil && !w.deadline.IsZero() &&
		last != nil && last.number > t.number && last.due.After(w.deadline) {
		w.leave()
		l.advance(l.pin(w, t))
		return
	}
	q.add(t)
}

// quit takes a call out that does not wait any more. A turn that it was just
// given goes to the next.
func (l *line) quit(w *waiter, a *ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := w.queue
	if l.withdraw(a) {
		q.asking--
	}
	if w.place != nil {
		w.leave()
	} else if w.ticket != nil {
		q = l.shared(w.ticket.cost)
		q.add(w.ticket)
	}
	l.advance(q)
}

// await lets a call wait for the turn of a number that it keeps.
func (l *line) await(w *waiter, t *ticket) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.pin(w, t)
	l.advance(q)
	return q
}

// overslept reports whether the turn of a final ticket was overslept: its permits
// are gone, and calling now would come on top of the calls of others.
func (l *line) overslept(t *ticket, now time.Time) bool {
	slack := time.Duration(float64(int64(l.core.cfg.Limit.MaxBurst())-t.cost)*l.core.interval) * time.Microsecond
	if now.Sub(t.due) > slack+oversleep {
		return true
	}
	return now.Round(0).Sub(t.given.Round(0))-now.Sub(t.given) > suspension
}

// advance gives a queue's turns to its calls, gives back what nobody needs, and
// sets the timer for what comes next. The line must be locked.
func (l *line) advance(q *queue) {
	if q.dropped {
		return
	}
	now := time.Now()
	for t := q.surplus(); t != nil; t = q.surplus() {
		l.giveBack(t)
	}
	overslept := 0
	for {
		w, t := q.next(now)
		if w == nil {
			break
		}
		if l.overslept(t, now) {
			overslept++
			t.final, t.kept, t.due = false, false, now
			q.rejoin(w)
			q.add(t)
			continue
		}
		w.finish(t, nil)
	}
	if overslept > 0 {
		l.core.cfg.Logger.Info("fleetpace: the process slept through turns of its calls; they claim others",
			"limit", l.core.name(l.key), "turns", overslept)
	}
	at := q.wake(l.core.lead())
	switch {
	case at.IsZero():
		l.stop(q)
	case !at.After(now):
		l.kick()
	default:
		l.wakeAt(q, at.Sub(now))
	}
	if q.idle() {
		l.stop(q)
		l.forget(q)
	}
}

func (l *line) wakeAt(q *queue, in time.Duration) {
	if timer := l.timers[q]; timer != nil {
		timer.Reset(in)
		return
	}
	if l.timers == nil {
		l.timers = make(map[*queue]*time.Timer)
	}
	l.timers[q] = time.AfterFunc(in, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.timers[q] != nil {
			l.advance(q)
		}
	})
}

func (l *line) stop(q *queue) {
	if timer := l.timers[q]; timer != nil {
		timer.Stop()
		delete(l.timers, q)
	}
}

// all ranges over the queues of the line.
func (l *line) all(yield func(*queue) bool) {
	for _, q := range l.queues {
		if !yield(q) {
			return
		}
	}
	for q := range l.pinned {
		if !yield(q) {
			return
		}
	}
}

// shared is the queue of all calls of a cost.
func (l *line) shared(cost int64) *queue {
	q := l.queues[cost]
	if q == nil {
		q = &queue{cost: cost}
		if l.queues == nil {
			l.queues = make(map[int64]*queue)
		}
		l.queues[cost] = q
	}
	return q
}

// pin makes a queue of its own for a call that keeps its number.
func (l *line) pin(w *waiter, t *ticket) *queue {
	q := &queue{cost: t.cost}
	q.join(w)
	q.add(t)
	if l.pinned == nil {
		l.pinned = make(map[*queue]bool)
	}
	l.pinned[q] = true
	return q
}

// drop forgets a pinned queue whose caller left and keeps its number.
func (l *line) drop(q *queue) {
	q.dropped = true
	l.stop(q)
	l.forget(q)
}

func (l *line) forget(q *queue) {
	delete(l.pinned, q)
	for cost, other := range l.queues {
		if other == q {
			delete(l.queues, cost)
		}
	}
}

// remembered is how far the line reached when this process last saw it.
func (l *line) remembered() time.Duration {
	if l.reach.IsZero() {
		return nothingKnown
	}
	return max(time.Until(l.reach), nothingKnown)
}
