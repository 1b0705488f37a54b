package engine

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file is what whoever runs an Engine needs besides its events: how a call stands, and script calls
// that nobody shares.

// View returns how a call stands.
func (e *Engine) View(c *Call) View {
	c.look()
	v := View{State: c.state, Due: c.due, Slowest: c.slowest, Turn: c.turn}
	if e.holders[c] {
		v.Lost = c.slots.lost
	}
	return v
}

// Tries makes a script call ready that nobody shares, unless Redis counts as away.
func (e *Engine) Tries(now time.Time, c *wire.Call) error {
	if !e.breaker.pass(now) {
		return e.breaker.shut()
	}
	c.Caller, c.Now, c.Clock, c.Unstepped = e.caller(e.clock.times(now)), now, e.clock.redis(now), e.clock.unstepped(now)
	return nil
}

// Tried takes the outcome of such a call in, and returns what has failed of it. Gone: nobody waits for it any more.
func (e *Engine) Tried(now time.Time, c *wire.Call, r *wire.Reply, sent, arrived time.Time, err error, gone bool) error {
	if err == nil {
		e.Heard(c, r, sent, arrived)
		err = r.AnyProblem()
	}
	if err != nil && gone {
		e.breaker.abandon()
	} else {
		e.breaker.record(now, err)
	}
	return err
}

// TriesAgain is after which pause such a call is made again that has failed so often before; over: it is not.
func (e *Engine) TriesAgain(err error, failures int) (pause time.Duration, over bool) {
	return e.backoff(failures), e.breaker.hopeless(err) || e.breaker.isOpen()
}

// Over reports whether the calls of a batch have their answers. Then its driver is to call Free.
func (b *Batch) Over() bool { return b.over }
