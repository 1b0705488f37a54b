package reserve

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fleetpace/fleetpace/internal/outage"
)

// line is the waiting side of one limit in this process: the queues of its
// calls and the round trips that they share. A line lives while something uses
// it; see core.enter.
//
// Calls ride to Redis on the bus, along with those of other lines; see ride.go. Where
// that will not do, one goroutine (fly) asks for them; those that come meanwhile share
// its next round trip. Timers give the turns, so a slow Redis delays no call that
// already has its turn.
type line struct {
	core *core
	key  string
	keys []string
	uses atomic.Int64

	mu      sync.Mutex
	queues  map[int64]*queue // by cost, for calls without a number of their own
	pinned  map[int64]*queue // by cost, for calls that keep theirs
	asks    []*ask
	back    []*ticket // to be given back
	returns returns
	flying  bool
	timers  map[*queue]*time.Timer // nil: of the calls that are served without Redis
	lanes   []*lane
	memory  memory
	where   geometry
	inForce terms // as of the last reply; see terms
	rides   rides
	lease   lease
	lost    bool  // data was: numbers from before it may wait here
	came    int64 // calls that waited here, so far

	guests map[*guest]struct{} // calls that wait here and in other lines, see joint_wait.go
	known  string              // of a limit that is not paced: what the last reply said
	alone  *outage.Share       // of such a limit: paces its calls while Redis is away

	landings map[string]chan struct{} // by id; see landing.go
}

// arrive notes the order in which calls came.
func (l *line) arrive(w *waiter) {
	l.came++
	w.arrival = l.came
}

// stand puts a call in its queue.
func (l *line) stand(w *waiter) {
	l.shared(w.cost).join(w)
	if w.blind {
		w.tell()
	}
}

// askFor is a request for a number of a queue, on behalf of one of its calls.
func (l *line) askFor(q *queue, w *waiter) *ask {
	q.asking++
	return &ask{
		request: request{cost: w.cost, id: l.core.newID(), keep: l.slow(), deadline: w.deadline}, queue: q,
		done: func(t *ticket, err error) { l.arrived(q, w, t, err) },
	}
}

// arrived takes the answer to the request of a waiter, who may have left.
func (l *line) arrived(q *queue, w *waiter, t *ticket, err error) {
	q.asking--
	switch {
	case err == nil && w.lone:
		l.answer(q, w, t)
	case err == nil:
		l.assign(q, w, t)
	case w.lone:
		l.turnAway(w)
	case w.place != nil:
		w.leave()
		w.finish(nil, err)
	}
}

// assign adds a number to a queue on behalf of a call. The number is the queue's, and
// the call gets the one that its place in the queue gives it. Where that would come
// too late for it, it keeps its own.
func (l *line) assign(q *queue, w *waiter, t *ticket) {
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
func (l *line) quit(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := w.queue
	if l.withdraw(w.ask) {
		q.asking--
	}
	switch {
	case w.place != nil:
		w.leave()
	case w.ticket != nil && w.ticket.number == 0: // a turn without the line is used up
	case w.ticket != nil:
		l.unobserve(w.ticket)
		q = l.shared(w.ticket.cost)
		w.ticket.owner = nil
		q.add(w.ticket)
	case w.own != nil:
		if l.unpin(w, true) {
			l.giveBack(w.own)
		}
	}
	l.advance(q)
}

// await lets a call wait for the turn of a number that it keeps. The line must be
// locked.
func (l *line) await(w *waiter, t *ticket) {
	l.arrive(w)
	l.adjust(t)
	l.advance(l.pin(w, t))
	l.serve()
}

// advance gives a queue's turns to its calls, gives back what nobody needs, and
// sets the timer for what comes next. The line must be locked.
func (l *line) advance(q *queue) {
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
		if t.overslept(now) {
			overslept++
			t.back = t.kept && l.slow()
			t.final, t.kept, t.due = false, false, now
			if t.owner == nil {
				q.rejoin(w)
			}
			q.add(t)
			continue
		}
		l.observe(t, now)
		w.finish(t, nil)
	}
	if overslept > 0 {
		l.core.cfg.Logger.Info("fleetpace: the process slept through turns of its calls; they claim others",
			"limit", l.core.name(l.key), "turns", overslept)
	}
	at, ask := q.turn(), q.ask(l.core.lead())
	switch {
	case ask.IsZero():
	case !ask.After(now): // a round trip may be under way for long; turns come meanwhile
		l.kick()
	case at.IsZero() || ask.Before(at):
		at = ask
	}
	if at.IsZero() {
		l.stop(q)
	} else {
		l.wakeAt(q, at.Sub(now))
	}
	l.cover(q)
	if q.idle() {
		l.stop(q)
		l.forget(q)
	}
}

// cover asks for numbers where a queue holds and expects fewer than calls wait in it: a
// call that came before others was served with the number of one of them, and then had
// no use for its own, as that was too late for it.
func (l *line) cover(q *queue) {
	if q.pinned || l.memory.absent != nil {
		return
	}
	at := q.waiters.Back()
	for range q.short() {
		w := at.Value.(*waiter)
		w.ask = l.askFor(q, w)
		l.enqueue(w.ask)
		at = at.Prev()
	}
}

func (l *line) wakeAt(q *queue, in time.Duration) {
	l.core.listen()
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
		switch {
		case l.timers[q] == nil:
		case q == nil:
			l.serve()
		default:
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
	for _, q := range l.pinned {
		if !yield(q) {
			return
		}
	}
}

// shared is the queue of all calls of a cost.
func (l *line) shared(cost int64) *queue {
	return of(&l.queues, cost, false)
}

func of(queues *map[int64]*queue, cost int64, pinned bool) *queue {
	q := (*queues)[cost]
	if q == nil {
		q = &queue{cost: cost, pinned: pinned}
		if *queues == nil {
			*queues = make(map[int64]*queue)
		}
		(*queues)[cost] = q
	}
	return q
}

// pin gives a ticket to a call that keeps its number.
func (l *line) pin(w *waiter, t *ticket) *queue {
	q := of(&l.pinned, t.cost, true)
	t.owner, w.own, w.queue = w, t, q
	q.add(t)
	return q
}

func (l *line) forget(q *queue) {
	for _, queues := range []map[int64]*queue{l.queues, l.pinned} {
		if queues[q.cost] == q {
			delete(queues, q.cost)
		}
	}
}
