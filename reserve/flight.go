package reserve

import (
	"context"
	"slices"
	"time"
)

const (
	// maxBatch is how many requests, claims or cancels share one script call;
	// Redis serves nobody else meanwhile.
	maxBatch = 256

	// patience is how long after its turn a call waits for a Redis that does not
	// answer its claim.
	patience = 5 * time.Second
)

// ask is one request on its way to Redis, and who wants the answer.
type ask struct {
	request
	queue *queue               // to be advanced then; nil: none
	done  func(*ticket, error) // called with the line locked
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
	reply, err := l.core.take(ctx, l.keys, reach, l.core.cfg.InlineBound, reqs)
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
	var last *queue
	for _, a := range asks {
		if a.queue != nil && a.queue != last {
			last = a.queue
			l.advance(last)
		}
	}
}

// claimed is a batch of tickets of one queue that are being claimed.
type claimed struct {
	from    *queue
	tickets []*ticket
}

// kept reports whether all tickets have the numbers that they had before.
func (c claimed) kept(before []int64) bool {
	for i, t := range c.tickets {
		if t.number != before[i] {
			return false
		}
	}
	return true
}

func (l *line) claimable(now time.Time) (claims, looks []claimed) {
	room := maxBatch
	for q := range l.all {
		if tickets := q.claimable(now, l.core.lead(), l.core.together(), room); len(tickets) > 0 {
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
	var before []int64
	for _, c := range claims {
		for _, t := range c.tickets {
			tickets, before = append(tickets, t), append(before, t.number)
		}
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
		l.retime(reply, tickets)
	}
	for _, c := range claims {
		c.from.claiming -= len(c.tickets)
		for _, t := range c.tickets {
			switch {
			case t.left && t.unused:
				l.giveBack(t)
			case t.left:
			case err != nil && now.Sub(t.due) > patience:
				l.abandon(c.from, t, err)
			default:
				c.from.add(t)
			}
		}
		kept := before[:len(c.tickets)]
		before = before[len(c.tickets):]
		switch {
		case looking:
			c.from.looked(now, c.tickets, l.core.step(c.from.cost), bound)
		case err == nil && c.kept(kept):
			c.from.look = now.Add(lookEvery) // nothing nearer was left lying
		}
		l.advance(c.from)
	}
}

// retime lets all tickets that wait follow the line, which may have moved. A wait
// of zero does not tell where it is.
func (l *line) retime(reply answers, tickets []*ticket) {
	for i, a := range reply.tickets {
		if a.wait > 0 {
			for q := range l.all {
				q.retime(tickets[i], l.core.interval)
			}
			return
		}
	}
}

// abandon fails the call whose number can not be claimed: the ticket's owner, or
// the first waiter.
func (l *line) abandon(q *queue, t *ticket, err error) {
	if t.owner != nil {
		t.owner.finish(nil, err)
	} else if first := q.waiters.Front(); first != nil {
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
