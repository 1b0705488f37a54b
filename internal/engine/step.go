package engine

import (
	"time"

	"github.com/fleetpace/fleetpace/internal/wire"
)

// This file has what the caller of an Engine needs besides the events: the state of a call, and script calls
// that serve one caller alone.

// View returns the state of a call.
func (e *Engine) View(c *Call) View {
	c.look()
	v := View{State: c.state, Due: c.due, Slowest: c.slowest, Turn: c.turn}
	if e.holders[c] {
		v.Lost = c.slots.lost
	}
	return v
}

// Tries prepares a script call that serves one caller. It returns an error if the breaker lets no attempt
// through.
func (e *Engine) Tries(now time.Time, c *wire.Call) error {
	if !e.breaker.pass(now) {
		return e.breaker.shut()
	}
	c.Caller, c.Now, c.Clock, c.Unstepped = e.caller(e.clock.times(now)), now, e.clock.redis(now), e.clock.unstepped(now)
	return nil
}

// Tried handles the outcome of such a call, and returns its error. gone says that the caller does not wait for
// the outcome any more.
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

// TriesAgain returns the pause before such a call is made again, after an error and this many failures before
// it. over says that it is not made again.
func (e *Engine) TriesAgain(err error, failures int) (pause time.Duration, over bool) {
	return e.backoff(failures), e.breaker.hopeless(err) || e.breaker.isOpen()
}

// Over reports whether the calls of a batch have their answers. Then its driver has to call Free.
func (b *Batch) Over() bool { return b.over }
