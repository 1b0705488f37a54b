package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/internal/engine"
	"github.com/fleetpace/fleetpace/reserve"
)

// join makes the callers of a process begin, as the plan says. A process that joins later has as many
// callers as process 0.
func (w *world) join(p *process, until time.Duration) {
	for i := range w.plan.loads {
		l := &w.plan.loads[i]
		for k := range l.callers {
			at := l.process
			if at == anybody {
				at = k
			}
			if at%len(w.plan.processes) != p.like {
				continue
			}
			random := w.plan.source("caller", p.n<<20+i<<12+k)
			delay := max(0, l.begin+time.Duration(k)*l.apart-w.now)
			if l.think > 0 {
				delay += time.Duration(random.Float64() * float64(l.think))
			}
			p.here(delay, func() { w.begin(p, l, k, random, 0, until) })
		}
	}
}

// begin makes a caller start its nth call, unless its work is done.
func (w *world) begin(p *process, l *load, caller int, random *rand.Rand, n int, until time.Duration) {
	if p.dead || w.now >= until || w.ended[made]+w.ended[booked] > w.most || l.calls > 0 && n >= l.calls {
		return
	}
	w.count++
	c := &call{n: w.count, load: l, caller: caller, process: p, joined: w.now, came: w.now}
	for _, part := range l.parts {
		if part.limit == anyLimit {
			part.limit = random.IntN(len(w.plan.limits))
		}
		if l.keys > 0 {
			part.key = customer(random.IntN(l.keys))
		}
		if part.cost > 1 {
			part.cost = 1 + random.IntN(part.cost)
		}
		c.parts = append(c.parts, part)
	}
	if l.deadline > 0 {
		c.deadline = w.now + l.deadline
	}
	c.again = func() {
		rest := time.Millisecond
		switch {
		case c.stopped: // it calls again at once, or soon
			if rest = time.Duration((random.Float64()*float64(l.callers) - 0.5) * float64(20*time.Millisecond)); rest <= 0 {
				w.begin(p, l, caller, random, n+1, until)
				return
			}
		case c.state == missed || c.state == failed || c.state == booked:
			rest += max(l.retry, 100*time.Millisecond)
		case l.think > 0:
			rest += time.Duration(2 * random.Float64() * float64(l.think))
		}
		p.here(rest, func() { w.begin(p, l, caller, random, n+1, until) })
	}
	if l.quits > 0 && random.Float64() < l.quits {
		p.here(time.Duration(random.Float64()*float64(l.patience)), func() {
			if c.state == waiting {
				w.finish(c, gaveUp)
				p.leave(c)
				c.again()
			}
		})
	}
	if l.books > 0 && random.Float64() < l.books {
		c.id = fmt.Sprintf("booking%d", c.n)
	}
	w.enter(c)
}

// enter makes a call wait for its turn.
func (w *world) enter(c *call) {
	p := c.process
	w.advance()
	if p.called == 0 {
		p.called = max(w.now, 1)
	}
	for _, part := range c.parts {
		if m := w.meterOf(part); m.users[p] == 0 {
			m.users[p], m.replies[p] = max(w.now, 1), w.now+2*p.trip
		}
	}
	w.calls[c.n] = c
	w.waiting = append(w.waiting, c)
	w.takesPlace(c)
	w.after(p.longest*4+ripens+c.load.lapses, func() {
		w.advance()
		c.ripe, c.could = true, w.now
	})
	p.joins(c)
}

// ripens is the least time that a call waits before the laws count it as a waiting call.
const ripens = 100 * time.Millisecond

// booked notes that a client has booked a call. Its caller comes back for it at its turn, or never.
func (w *world) booked(c *call, due time.Duration) {
	w.finish(c, booked)
	c.again()
	random := w.plan.source("booked", c.n)
	if random.Float64() >= c.load.returns {
		return
	}
	w.promised = max(w.promised, due)
	c.process.here(max(0, due-reserve.Lead-w.now), func() { // as the documentation says
		w.count++
		w.enter(&call{n: w.count, load: c.load, caller: c.caller, process: c.process, parts: c.parts, joined: w.now, came: c.came, id: c.id, back: true, again: func() {}})
	})
}

// turn notes that a call of a client has its turn.
func (w *world) turn(c *call) {
	w.advance()
	w.overtaken(c)
	w.judgeTurn(c)
	if len(w.plan.expects) > 0 {
		w.turns = append(w.turns, turn{c, w.now})
	}
	if c.load.lasts == 0 && c.load.used == 0 {
		w.finish(c, made)
		c.process.done(c, nil)
		c.again()
		return
	}
	w.finish(c, holding)
	random := w.plan.source("hold", c.n)
	lasts := time.Duration(random.Float64() * float64(c.load.lasts))
	used := make([]int, len(c.parts))
	for i, p := range c.parts {
		used[i] = int(float64(p.cost) * c.load.used)
	}
	w.after(lasts, func() { // even if its process is stopped
		if w.advance(); c.state == holding && !c.slotless {
			c.slotless = true
			w.release(c, used)
		}
	})
	c.process.here(lasts, func() {
		w.finish(c, made)
		c.process.done(c, used)
		c.again()
	})
}

// slotsLost notes that a call may have lost its slots, and ends it.
func (w *world) slotsLost(c *call) {
	if c.state == holding && !c.slotless {
		w.advance()
		c.slotless = true
		w.release(c, make([]int, len(c.parts)))
	}
}

// fail notes that a call of a client has an error.
func (w *world) fail(c *call, err error) {
	if c.state != waiting {
		return
	}
	w.advance()
	var not *engine.NotNow
	switch {
	case c.load.now && errors.As(err, &not), errors.Is(err, reserve.ErrWouldMissDeadline), errors.Is(err, context.DeadlineExceeded):
		w.finish(c, missed)
	default:
		w.judgeError(c, err)
		w.finish(c, failed)
		if c.stopped = errors.Is(err, reserve.ErrExhausted); c.stopped {
			c.process.probe(c)
		}
	}
	c.again()
}

// finish notes that a call is over, or that it holds its slots from now on.
func (w *world) finish(c *call, how state) {
	if how == lost && c.state == holding && !c.slotless {
		w.release(c, make([]int, len(c.parts)))
	}
	if c.state != waiting && c.state != holding {
		return
	}
	if c.state == waiting {
		w.advance()
		w.leavesPlace(c, how)
		w.waiting = slices.DeleteFunc(w.waiting, func(o *call) bool { return o == c })
		w.demands()
	}
	c.state = how
	w.ended[how]++
	if how != holding {
		delete(w.calls, c.n)
	}
}
