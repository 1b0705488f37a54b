package reserve

import (
	"context"
	"time"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// do makes a call that may be repeated as it is, outside of the round trips of a
// line, until Redis answers or counts as away.
func (c *core) do(ctx context.Context, call func() error) error {
	for n := 0; ; n++ {
		if !c.gate.Pass() {
			return c.gate.Shut()
		}
		err := call()
		c.gate.Record(ctx, err)
		if !fault.Away(err) || c.gate.Hopeless(err) || ctx.Err() != nil {
			return err
		}
		if c.gate.Open() {
			return err
		}
		c.rest(ctx, n)
	}
}

// do is core.do for a call that tells what is known of the line. Under PolicyWait
// it waits for Redis.
func (l *line) do(ctx context.Context, call func(caller) error) error {
	for {
		err := l.core.do(ctx, func() error {
			l.mu.Lock()
			who := l.caller(l.main(), 0)
			l.mu.Unlock()
			return call(who)
		})
		switch {
		case !fault.Away(err), l.core.gate.Hopeless(err), l.core.cfg.Outage.Policy != PolicyWait:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case l.core.isClosing():
			return ErrClosed
		}
		l.core.gate.Wait(ctx.Done(), l.core.closing)
	}
}

// withoutRedis is the ticket of a call while Redis is away, as the policy says.
// The line must be locked.
func (l *line) withoutRedis(id string, cost int64, err error) (*ticket, error) {
	now := time.Now()
	switch l.core.cfg.Outage.Policy {
	case PolicyLocal:
		return l.unnumbered(id, cost, now), nil
	case PolicyOpen:
		t := l.unnumbered(id, cost, now)
		t.final = true
		l.absent(now).spend(now, cost)
		return t, nil
	default:
		return nil, err
	}
}
