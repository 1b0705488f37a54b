package llm

import (
	"context"
	"sync"
	"time"

	"github.com/fleetpace/fleetpace/reserve"
)

// tellFor bounds how long Redis may take to receive what a call has said.
const tellFor = 5 * time.Second

// Call is a call that has its turn. It is safe for concurrent use.
type Call struct {
	set  *Set
	r    *reserve.Reservation
	e    Estimate
	n    int // limits of its turn
	mu   sync.Mutex
	u    Usage
	text int       // bytes that it has produced
	next time.Time // when it is settled again before its end; zero: its prompt was not settled
	over bool
}

// Acquire waits for the turn of a call that another client makes, such as one of gRPC or of AWS. Close the Call when
// its answer is read:
//
//	call, err := set.Acquire(ctx, llm.Estimate{Input: 20_000, Output: 800, Max: 4096})
//	if err != nil {
//		return err
//	}
//	defer call.Close()
//
// If the turn would come after the context's deadline, Acquire fails at once. Errors are those of
// [reserve.Joint.Acquire], with [ErrExhausted] among them.
func (s *Set) Acquire(ctx context.Context, e Estimate) (*Call, error) {
	e.route = wishesOf(ctx).route
	t, joint, err := s.need(ctx, e)
	if err != nil {
		return nil, err
	}
	r, err := joint.Acquire(ctx, t.Costs...)
	if s.follows(ctx, err) {
		return s.Acquire(ctx, e)
	}
	if err != nil {
		return nil, err
	}
	return &Call{set: s, r: r, e: e, n: len(t.Costs)}, nil
}

// Probes reports whether the call probes a hard stop. If Saw has taken in what it used, Done ends the stop.
func (c *Call) Probes() bool { return c.r.Probes() }

// Saw takes in what the response has stated so far: totals, of which the largest count. The tokens of the prompt are
// settled when they are stated, and the rest by Done. A provider may count an answer while it produces it. Then tokens of an
// answer that are more than was reserved are settled once a second.
func (c *Call) Saw(u Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.u.Input, c.u.CacheRead, c.u.CacheWrite = max(c.u.Input, u.Input), max(c.u.CacheRead, u.CacheRead), max(c.u.CacheWrite, u.CacheWrite)
	c.u.Output, c.u.Cost = max(c.u.Output, u.Output), max(c.u.Cost, u.Cost)
	c.u.Known = c.u.Known || u.Known || u.Input+u.CacheRead+u.CacheWrite > 0
	c.early()
}

// early settles what is known before the end of the call: the prompt at once, and then the answer, once a second, if it
// is longer than what was reserved. The Call must be locked.
func (c *Call) early() {
	now := time.Now()
	if !c.u.Known || c.over || now.Before(c.next) {
		return
	}
	u := c.u
	u.Output = max(u.Output, c.produced())
	c.next = now.Add(time.Second)
	c.settle(c.set.used(c.n, c.e, u, true))
}

// produced is how many tokens the text has that has come, about.
func (c *Call) produced() int { return (c.text + bytesPerToken - 1) / bytesPerToken }

// Produced notes that the response has brought so many bytes of text. It counts if the stream is cut before it has
// stated its tokens, and, once it is more than was reserved, while they come.
func (c *Call) Produced(bytes int) {
	c.mu.Lock()
	c.text += max(0, bytes)
	c.early()
	c.mu.Unlock()
}

// Done says that the response is complete, so that what Saw has taken in is exact. It ends the call.
func (c *Call) Done() { c.end(true) }

// Close ends the call: its slot is free. The use that is known is settled, and the rest stays at its estimate. It may
// be repeated, also after Done.
func (c *Call) Close() { c.end(false) }

// Failed says that the provider has refused the call, or has failed. The call is over, and its cost comes back unless
// the provider counts failed calls.
func (c *Call) Failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		c.r.Release()
		c.settle(c.set.failed(c.n, c.e))
	}
}

func (c *Call) end(complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	c.r.Release()
	if c.u.Complete = complete; !complete {
		c.u.Output = max(c.u.Output, c.produced())
	}
	if c.u.Known {
		c.set.learn(c.e, c.u)
	}
	if complete && c.u.Known && c.r.Probes() {
		c.set.background(func(ctx context.Context) {
			if err := c.r.Served(ctx); err != nil {
				c.set.config.Logger.Error("llm: the limit is stopped, though the provider serves calls again: resume it", "limit", c.set.preset.Model, "error", err)
			}
		})
	}
	if c.u.Known || c.set.preset.fixed() {
		c.settle(c.set.used(c.n, c.e, c.u, false))
	}
}

// settle tells Redis in the background what the call has used.
func (c *Call) settle(used []int) {
	if used == nil {
		return
	}
	c.r.SettleSoon(func(err error) {
		if err != nil {
			c.set.config.Logger.Error("llm: the cost of a call could not be settled; its estimate stays", "limit", c.set.preset.Model, "used", used, "error", err)
		}
	}, used...)
}
