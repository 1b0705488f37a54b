package reserve

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// maxBatch is how many requests, claims or cancels share one script call;
	// Redis serves nobody else meanwhile.
	maxBatch = 256

	// oversleep is by how much a call may be late, beyond what its permits allow,
	// before its turn counts as missed: what timers and schedulers do to a
	// process that runs.
	oversleep = 20 * time.Millisecond

	// suspension is by how much the wall clock may run ahead of the monotonic
	// one, which stands still while a machine sleeps.
	suspension = time.Second

	// lookEvery is how often a process whose calls all have far turns looks, at
	// the most, whether a nearer number was left lying; see queue.look.
	lookEvery = 250 * time.Millisecond

	// patience is how long after its turn a call waits for a Redis that does not
	// answer its claim.
	patience = 5 * time.Second
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

// ask is one request on its way to Redis, and who wants the answer.
type ask struct {
	request
	done func(*ticket, error) // called with the line locked
}

// enqueue sends a request with the next round trip.
func (l *line) enqueue(a *ask) {
	l.asks = append(l.asks, a)
	l.kick()
}

// withdraw takes back a request that was not sent yet.
func (l *line) withdraw(a *ask) bool {
	i := slices.Index(l.asks, a)
	if i < 0 {
		return false
	}
	l.asks = slices.Delete(l.asks, i, i+1)
	return true
}

// giveBack returns a ticket to the line with the next round trip.
func (l *line) giveBack(t *ticket) {
	l.back = append(l.back, t)
	l.kick()
}

// kick starts the goroutine that does round trips, unless it runs. The line
// must be locked.
func (l *line) kick() {
	if l.flying {
		return
	}
	l.flying = true
	l.core.hold(l)
	go l.fly()
}

// fly does round trips until there is nothing left to ask.
func (l *line) fly() {
	defer l.core.leave(l)
	// A round trip serves many calls: no caller's context may end it. It ends
	// by the timeouts of the client.
	ctx := context.Background()
	for {
		l.mu.Lock()
		asks := cut(&l.asks)
		back := cut(&l.back)
		claims, looks := l.claimable(time.Now())
		reach := l.remembered()
		if len(asks)+len(back)+len(claims)+len(looks) == 0 {
			l.flying = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()

		if len(back) > 0 {
			l.cancel(ctx, back)
		}
		if len(claims) > 0 {
			l.claim(ctx, reach, claims, false)
		}
		if len(looks) > 0 {
			l.claim(ctx, reach, looks, true)
		}
		if len(asks) > 0 {
			l.take(ctx, reach, asks)
		}
	}
}

// cut takes the first batch off a list.
func cut[T any](list *[]T) []T {
	n := min(len(*list), maxBatch)
	batch := (*list)[:n:n]
	if *list = (*list)[n:]; len(*list) == 0 {
		*list = nil
	}
	return batch
}

func (l *line) take(ctx context.Context, reach time.Duration, asks []*ask) {
	reqs := make([]request, len(asks))
	for i, a := range asks {
		reqs[i] = a.request
	}
	reply, err := l.core.take(ctx, l.keys, reach, reqs)
	now := time.Now()

	l.mu.Lock()
	defer l.mu.Unlock()
	for i, a := range asks {
		switch {
		case err != nil:
			a.done(nil, err)
		case reply.tickets[i].status == refused:
			a.done(nil, &missed{reply.tickets[i].wait})
		default:
			t := &ticket{cost: a.cost, id: a.id}
			t.set(reply.epoch, reply.tickets[i], now, a.keep)
			a.done(t, nil)
		}
	}
	if err == nil {
		l.reach = now.Add(reply.reach)
	}
	for q := range l.all {
		l.advance(q)
	}
}

// claimed is a batch of tickets of one queue that are being claimed.
type claimed struct {
	from    *queue
	tickets []*ticket
}

func (l *line) claimable(now time.Time) (claims, looks []claimed) {
	room := maxBatch
	for q := range l.all {
		if tickets := q.claimable(now, l.core.lead(), l.core.cfg.InlineBound, room); len(tickets) > 0 {
			claims = append(claims, claimed{q, tickets})
			room -= len(tickets)
		} else if tickets := q.lookable(now, l.core.row(q.cost), room); len(tickets) > 0 {
			looks = append(looks, claimed{q, tickets})
			room -= len(tickets)
		}
		if room == 0 {
			break
		}
	}
	return claims, looks
}

// claim claims tickets. One that only looks for a number left lying takes no
// turn that its holder may still claim in time.
func (l *line) claim(ctx context.Context, reach time.Duration, claims []claimed, looking bool) {
	bound := l.core.cfg.InlineBound
	if looking {
		bound = l.core.near()
	}
	var tickets []*ticket
	for _, c := range claims {
		tickets = append(tickets, c.tickets...)
	}
	reply, err := l.core.claim(ctx, l.keys, reach, bound, tickets)
	now := time.Now()

	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range tickets {
		if err == nil {
			t.set(reply.epoch, reply.tickets[i], now, true)
		} else {
			t.retry = now.Add(backoff(now.Sub(t.due)))
		}
	}
	if err == nil {
		l.reach = now.Add(reply.reach)
	}
	for _, c := range claims {
		c.from.claiming -= len(c.tickets)
		for _, t := range c.tickets {
			if err != nil && now.Sub(t.due) > patience {
				l.abandon(c.from, err)
				continue
			}
			c.from.add(t)
		}
		if looking {
			c.from.looked(now, c.tickets, l.core.step(c.from.cost), bound)
		}
		l.advance(c.from)
	}
}

// abandon fails the first waiter of a queue, whose number can not be claimed.
func (l *line) abandon(q *queue, err error) {
	if first := q.waiters.Front(); first != nil {
		w := first.Value.(*waiter)
		w.leave()
		w.finish(nil, err)
	}
}

// backoff is the pause after a claim that failed, overdue by late: short at
// first, as the turn may still be met.
func backoff(late time.Duration) time.Duration {
	return min(max(50*time.Millisecond, late/2), time.Second)
}

func (l *line) cancel(ctx context.Context, tickets []*ticket) {
	if _, err := l.core.cancel(ctx, l.keys, tickets); err != nil {
		l.core.cfg.Logger.Warn("fleetpace: numbers could not be given back; they lapse unused",
			"limit", l.core.name(l.key), "numbers", len(tickets), "error", err)
	}
}

// set puts what Redis said of a ticket into it.
func (t *ticket) set(epoch int64, a answer, now time.Time, kept bool) {
	t.epoch, t.number = epoch, a.number
	t.given, t.due = now, now.Add(a.wait)
	t.final = a.status == final
	t.kept = t.final && kept
	t.retry = time.Time{}
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

// join lets a call wait for its turn, and asks for a number on its behalf.
func (l *line) join(w *waiter, r request) *ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.shared(r.cost)
	q.join(w)
	q.asking++
	a := &ask{request: r, done: func(t *ticket, err error) { l.arrived(q, w, t, err) }}
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
