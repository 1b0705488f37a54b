package reserve

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// maxBatch is how many requests, claims or cancels share one script call; Redis
// serves nobody else meanwhile.
const maxBatch = 256

// ask is one request on its way to Redis, and who wants the answer.
type ask struct {
	request
	queue *queue               // to be advanced then; nil: none
	done  func(*ticket, error) // called with the line locked
	err   error                // of the last attempt

	gave, left int64 // how much was given back before it; see returns
}

// enqueue sends a request with the next round trip.
func (l *line) enqueue(a *ask) {
	a.gave, a.left = l.returns.gave, l.returns.left
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

// giveBack returns a ticket to the line with the next round trip. Calls that come now do not
// ride, as they would overtake it.
func (l *line) giveBack(t *ticket) {
	l.back = append(l.back, t)
	l.returns.gave++
	l.rides.plain = false
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
		if l.core.gate.Open() {
			if !l.sitOut(ctx) {
				return
			}
			continue
		}
		l.mu.Lock()
		if l.memory.absent != nil {
			l.mu.Unlock()
			l.goOn(ctx)
			continue
		}
		back := cut(&l.back)
		l.returns.cancelling = len(back) > 0
		asks := l.ready()
		claims := l.claimable(time.Now())
		if len(asks)+len(back)+claims.tickets() == 0 {
			l.flying = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()

		if len(back) > 0 {
			l.cancel(ctx, back)
			l.mu.Lock()
			l.returns.cancelling = false
			l.returned()
			l.mu.Unlock()
		}
		var trips []func()
		for why, batch := range claims {
			if len(batch) > 0 {
				trips = append(trips, func() { l.claim(ctx, batch, purpose(why)) })
			}
		}
		if len(asks) > 0 {
			trips = append(trips, func() { l.take(ctx, asks) })
		}
		together(trips)
	}
}

// together makes round trips at the same time: on a slow network, one after the
// other would take longer than turns are claimed ahead.
func together(trips []func()) {
	var others sync.WaitGroup
	for i, trip := range trips {
		if i < len(trips)-1 {
			others.Go(trip)
		} else {
			trip()
		}
	}
	others.Wait()
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

// attempt makes a call until Redis answers or counts as away. A call that has a
// serial is carried out once, also if its reply was lost. The error is that of an
// attempt that was made already, if there was one.
func (l *line) attempt(ctx context.Context, from *lane, serial int64, err error, call func(caller) error) error {
	failures := 0
	for {
		if err != nil {
			if !fault.Away(err) || l.core.gate.Hopeless(err) || l.core.gate.Open() || l.core.isClosing() {
				return err
			}
			l.core.rest(ctx, failures)
			if l.mustComeBack() {
				return err
			}
			failures++
		} else if l.mustComeBack() { // others have failed for so long
			return l.core.gate.Shut()
		}
		l.mu.Lock()
		who := l.caller(from, serial)
		l.mu.Unlock()
		err = call(who)
		l.core.gate.Record(ctx, err)
		if err == nil {
			return nil
		}
	}
}

// number begins a numbered call. The lane is to be freed when that is over. The line
// must be locked.
func (l *line) number() (*lane, int64) {
	a := l.lane()
	return a, l.sign(a)
}

// sign gives a call of a lane its serial.
func (l *line) sign(a *lane) int64 {
	a.serial = l.core.serials.Add(1)
	return a.serial
}

func (l *line) take(ctx context.Context, asks []*ask) {
	l.mu.Lock()
	from, serial := l.number()
	l.mu.Unlock()
	if l.takeAs(ctx, from, serial, nil, asks) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks = append(asks, l.asks...) // the policy decides
}

// takeAs asks under a serial; the error is that of an attempt which was made already. It
// reports false when Redis is away.
func (l *line) takeAs(ctx context.Context, from *lane, serial int64, err error, asks []*ask) bool {
	reqs := make([]request, len(asks))
	for i, a := range asks {
		reqs[i] = a.request
	}
	var reply answers
	err = l.attempt(ctx, from, serial, err, func(who caller) (err error) {
		reply, err = l.core.take(ctx, l.keys, who, l.core.cfg.InlineBound, reqs)
		return err
	})

	l.mu.Lock()
	defer l.mu.Unlock()
	from.busy = false
	if fault.Away(err) && !l.core.gate.Hopeless(err) && !l.core.isClosing() {
		for _, a := range asks {
			a.err = err
		}
		return false
	}
	l.rides.plain = false
	if err == nil {
		l.learn(from, serial, reply)
		if !l.returning() {
			l.rides.mayGoOn(reply, l.core.jitter())
		}
	}
	for i, a := range asks {
		switch {
		case err != nil:
			a.done(nil, err)
		case reply.tickets[i].status == refused:
			a.done(nil, reply.refusal(i, a.request))
		default:
			t := &ticket{cost: a.cost, id: a.id}
			t.set(reply, i, a.keep)
			l.adjust(t)
			a.done(t, nil)
		}
	}
	var last *queue
	for _, a := range asks {
		if a.queue != nil && a.queue != last {
			last = a.queue
			l.advance(last)
		}
	}
	return true
}

func (l *line) cancel(ctx context.Context, tickets []*ticket) {
	l.mu.Lock()
	from, serial := l.number()
	l.mu.Unlock()
	var went []bool
	err := l.attempt(ctx, from, serial, nil, func(who caller) (err error) {
		went, err = l.core.cancel(ctx, l.keys, who, tickets)
		return err
	})
	l.core.leased.settle(tickets, went)
	l.mu.Lock()
	defer l.mu.Unlock()
	from.busy = false
	l.rides.plain = false // what went back may be free now
	if err == nil {
		return
	}
	// By number it can not be told later whether it went back already.
	tickets = slices.DeleteFunc(tickets, func(t *ticket) bool { return t.final && !t.kept })
	if fault.Away(err) && !l.core.gate.Hopeless(err) && !l.core.isClosing() {
		l.back = append(tickets, l.back...)
	}
	l.core.lost.Do(func() {
		l.core.cfg.Logger.Warn("fleetpace: numbers could not be given back; those that nobody claims lapse",
			"limit", l.core.name(l.key), "error", err)
	})
}

// set puts what Redis said of the ith ticket into it.
func (t *ticket) set(reply answers, i int, kept bool) {
	a := reply.tickets[i]
	t.epoch, t.gen, t.number = reply.epoch, reply.gen, a.number
	t.given, t.seen, t.due, t.since, t.unsure = reply.at, reply.seen, reply.at.Add(a.wait), a.since, a.unsure
	t.slack = reply.slack(t.cost)
	t.final = a.status == final
	t.kept = t.final && kept
	t.retry = time.Time{}
}
