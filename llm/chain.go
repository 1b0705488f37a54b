package llm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Chained are Sets in order of preference. It is safe for concurrent use.
type Chained struct {
	sets []*Set

	mu      sync.Mutex
	current int
	since   time.Time
}

// Chain returns a chain of Sets, the preferred one first. They may be models of other providers: the request is the
// caller's business.
func Chain(sets ...*Set) *Chained { return &Chained{sets: sets} }

// stays is how long a chain keeps to another Set than the first one before it looks at the first one again.
const stays = time.Minute

// Acquire waits for a turn at the first Set whose turn would come within maxWait, and that is not used up. It returns
// the index of the Set. After a change it stays with the other Set for a minute. It may
// wait for maxWait, which must be above 0, at each Set. [reserve.ErrUnavailable] ends the search. If all Sets are used up, the error is
// the ErrExhausted that ends first. If no Set fits, the error says why the preferred Set does not, or, if that one is
// used up, why another one does not.
func (c *Chained) Acquire(ctx context.Context, e Estimate, maxWait time.Duration) (int, *Call, error) {
	var call *Call
	i, err := c.choose(ctx, func(i int) (moves bool, err error) {
		call, err = c.sets[i].acquireWithin(ctx, e, maxWait)
		return elsewhere(err), err
	})
	return i, call, err
}

// choose tries Sets until one makes a call, or fails so that no other one is to be tried.
func (c *Chained) choose(ctx context.Context, try func(i int) (moves bool, err error)) (int, error) {
	first, since := c.first()
	var failed error
	exhausted := 0
	var soonest *Exhausted
	for k := range c.sets {
		i := (first + k) % len(c.sets)
		moves, err := try(i)
		if err == nil {
			c.use(i, since)
			return i, nil
		}
		if ctx.Err() != nil || !moves {
			return i, err
		}
		var gone *Exhausted
		if errors.As(err, &gone) {
			exhausted++
			if soonest == nil || !gone.Until.IsZero() && (soonest.Until.IsZero() || gone.Until.Before(soonest.Until)) {
				soonest = gone
			}
		} else if failed == nil || i == 0 {
			failed = err
		}
	}
	if len(c.sets) == 0 {
		return 0, fmt.Errorf("llm: %w Chain: needs at least one Set", ErrInvalid)
	}
	if exhausted == len(c.sets) {
		return 0, soonest
	}
	return 0, failed
}

// acquireWithin is Acquire for a call that waits for at most a time.
func (s *Set) acquireWithin(ctx context.Context, e Estimate, wait time.Duration) (*Call, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.Acquire(ctx, e)
}

// first returns the Set to try first, and when that was decided.
func (c *Chained) first() (i int, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current > 0 && time.Since(c.since) >= stays {
		return 0, c.since
	}
	return c.current, c.since
}

// use notes which Set a call uses, unless another call has decided since it began: its turn may have taken long.
func (c *Chained) use(i int, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.since != since:
	case i != c.current:
		c.current, c.since = i, time.Now()
	case i > 0 && time.Since(c.since) >= stays: // the first one does not fit yet
		c.since = time.Now()
	}
}
