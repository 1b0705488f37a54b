package world

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// join lets the callers of a process begin, as the plan says. Those of a process that joins later
// are as many as those of process 0.
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
			delay := max(0, l.begin-w.now)
			if l.think > 0 {
				delay += time.Duration(random.Float64() * float64(l.think))
			}
			w.after(delay, func() { w.begin(p, l, k, random, 0, until) })
		}
	}
}

// begin lets a caller make its nth call, unless its work is done.
func (w *world) begin(p *process, l *load, caller int, random *rand.Rand, n int, until time.Duration) {
	if p.dead || w.now >= until || w.ended[made] > most || l.calls > 0 && n >= l.calls {
		return
	}
	w.count++
	c := &call{n: w.count, load: l, caller: caller, process: p, joined: w.now}
	for _, part := range l.parts {
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
		case c.state == missed || c.state == failed:
			rest += max(l.retry, 100*time.Millisecond)
		case l.think > 0:
			rest += time.Duration(2 * random.Float64() * float64(l.think))
		}
		w.after(rest, func() { w.begin(p, l, caller, random, n+1, until) })
	}
	if l.quits > 0 && random.Float64() < l.quits {
		w.after(time.Duration(random.Float64()*float64(l.patience)), func() {
			if c.state == waiting {
				w.finish(c, gaveUp)
				p.giveUp(c)
				c.again()
			}
		})
	}
	w.advance()
	w.calls[c.n] = c
	w.waiting = append(w.waiting, c)
	w.after(p.longest*4+ripens, func() {
		w.advance()
		c.ripe, c.could = true, w.now
	})
	p.join(c)
}

// ripens is for how long a call waits at the least before it counts as one that could be made.
const ripens = 100 * time.Millisecond

// turn is told by a member when a call has its turn. It reports false if nobody wants it any more.
func (w *world) turn(c *call) bool {
	if c.state != waiting {
		return false
	}
	w.advance()
	w.overtaken(c)
	w.judgeTurn(c)
	if c.load.lasts == 0 && c.load.used == 0 {
		w.finish(c, made)
		c.again()
		return true
	}
	w.finish(c, holding)
	random := w.plan.source("hold", c.n)
	lasts := time.Duration(random.Float64() * float64(c.load.lasts))
	w.after(lasts, func() {
		if c.state == lost {
			return
		}
		w.advance()
		used := make([]int, len(c.parts))
		for i, p := range c.parts {
			used[i] = int(float64(p.cost) * c.load.used)
		}
		if !c.slotless {
			w.release(c, used)
		}
		w.finish(c, made)
		c.process.done(c, used)
		c.again()
	})
	return true
}

// slotsLost is told by a member when a call may not count on its slots any more, and ends.
func (w *world) slotsLost(c *call) {
	if c.state == holding && !c.slotless {
		w.advance()
		c.slotless = true
		w.release(c, make([]int, len(c.parts)))
	}
}

// fail is told by a member when a call has an error.
func (w *world) fail(c *call, err error) {
	if c.state != waiting {
		return
	}
	w.advance()
	switch {
	case errors.Is(err, reserve.ErrWouldMissDeadline):
		w.finish(c, missed)
	default:
		w.judgeError(c, err)
		w.finish(c, failed)
	}
	c.again()
}

// finish notes that a call is over, or holds its slots from now on.
func (w *world) finish(c *call, how state) {
	if how == lost && c.state == holding && !c.slotless {
		w.release(c, make([]int, len(c.parts)))
	}
	if c.state != waiting && c.state != holding {
		return
	}
	if c.state == waiting {
		w.waiting = slices.DeleteFunc(w.waiting, func(o *call) bool { return o == c })
	}
	c.state = how
	w.ended[how]++
	if how != holding {
		delete(w.calls, c.n)
	}
}
