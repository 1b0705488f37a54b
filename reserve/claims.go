package reserve

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
)

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

// purpose is what tickets are claimed for.
type purpose int

const (
	forTurn   purpose = iota // it is near
	forLook                  // a number left lying, if there is one nearer
	forNumber                // another, as data was lost
	purposes
)

// bound is how near the turn must be that such a claim takes. One that looks takes
// none that its holder may still claim in time, and one for another number takes
// none: those of other processes are not to be overtaken.
func (c *core) bound(p purpose) time.Duration {
	switch p {
	case forLook:
		return c.near()
	case forNumber:
		return noneFinal
	default:
		return c.cfg.InlineBound
	}
}

// claimList is what is to be claimed, by purpose.
type claimList [purposes][]claimed

func (c *claimList) add(why purpose, q *queue, tickets []*ticket) {
	if len(tickets) > 0 {
		c[why] = append(c[why], claimed{q, tickets})
	}
}

func (c *claimList) tickets() (n int) {
	for _, batch := range c {
		for _, claimed := range batch {
			n += len(claimed.tickets)
		}
	}
	return n
}

func (l *line) claimable(now time.Time) (claims claimList) {
	still := oversleep + 2*l.core.clock.roundTrip()
	lost := l.lost
	l.lost = false
	for q := range l.all {
		if lost {
			tickets, more := q.outdated(l.memory.epoch, now, maxBatch-claims.tickets())
			claims.add(forNumber, q, tickets)
			l.lost = l.lost || more
		}
		near := q.claimable(now, l.core.lead(), l.core.nearby(), still, maxBatch-claims.tickets())
		claims.add(forTurn, q, near)
		if len(near) == 0 {
			claims.add(forLook, q, q.lookable(now, l.row(q.cost), maxBatch-claims.tickets()))
		}
	}
	return claims
}

// claim claims tickets.
func (l *line) claim(ctx context.Context, claims []claimed, why purpose) {
	bound := l.core.bound(why)
	var tickets []*ticket
	var before []int64
	for _, c := range claims {
		for _, t := range c.tickets {
			tickets, before = append(tickets, t), append(before, t.number)
		}
	}
	l.waitAgain(ctx, tickets)
	var reply answers
	const byID = 0 // a claim that is repeated finds what it got
	l.mu.Lock()
	from := l.main()
	l.mu.Unlock()
	err := l.attempt(ctx, from, byID, nil, func(who caller) (err error) {
		reply, err = l.core.claim(ctx, l.keys, who, bound, tickets)
		return err
	})
	now := time.Now()

	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range tickets {
		if err == nil {
			t.set(reply, i, true)
		} else {
			t.retry = now.Add(l.core.backoff(0))
		}
	}
	l.lost = l.lost || why == forNumber && err != nil
	if err == nil {
		l.learn(from, byID, reply)
		for _, t := range tickets {
			l.adjust(t)
		}
		l.retime(reply, tickets)
	}
	for _, c := range claims {
		c.from.claiming -= len(c.tickets)
		for _, t := range c.tickets {
			t.out = false
			if t.left {
				l.landed(t)
			}
			switch {
			case t.left && t.unused:
				l.giveBack(t)
			case t.left:
			case err != nil && (!fault.Away(err) || l.core.gate.Hopeless(err)):
				l.abandon(c.from, t, err)
			default:
				c.from.add(t)
			}
		}
		kept := before[:len(c.tickets)]
		before = before[len(c.tickets):]
		switch {
		case why == forLook:
			c.from.looked(now, c.tickets, l.terms().step(c.from.cost), bound)
		case err == nil && c.kept(kept):
			c.from.look = now.Add(lookEvery) // nothing nearer was left lying
		}
		l.advance(c.from)
	}
}

// retime lets all tickets that wait follow the line, which may have moved. A wait
// of zero does not tell where it is.
func (l *line) retime(reply answers, tickets []*ticket) {
	if reply.epoch == l.where.epoch && reply.gen < l.where.gen {
		return // it has moved since
	}
	for i, a := range reply.tickets {
		if a.wait > 0 {
			for q := range l.all {
				q.retime(tickets[i], reply.interval)
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
